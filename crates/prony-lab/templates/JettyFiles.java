// prony lab, host @HOST@: Jetty serves the files of the file server from memory.
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

public class JettyFiles {
    // As many as httpd has.
    static final int THREADS = @ALL_THREADS@;

    public static void main(String[] args) throws Exception {
        var files = new HashMap<String, byte[]>();
        try (var names = Files.list(Path.of("@DIR@/www"))) {
            for (var file : names.toList()) {
                files.put("/" + file.getFileName(), Files.readAllBytes(file));
            }
        }
        files.put("/", files.get("/616"));
        var http = new HttpConfiguration();
        http.setSendServerVersion(false);
        var server = new Server(new QueuedThreadPool(THREADS));
        var connector = new ServerConnector(server, new HttpConnectionFactory(http));
        connector.setPort(80);
        connector.setIdleTimeout(60_000);
        var backlog = "@BACKLOG@";
        connector.setAcceptQueueSize(backlog.isEmpty() ? 2048 : Integer.parseInt(backlog));
        server.addConnector(connector);
        // It waits for nothing, so Jetty need not hand it to another thread.
        server.setHandler(new Handler.Abstract.NonBlocking() {
            @Override
            public boolean handle(Request request, Response response, Callback callback) {
                var body = files.get(Request.getPathInContext(request));
                if (body == null) {
                    Response.writeError(request, response, callback, 404);
                    return true;
                }
                response.getHeaders().put(HttpHeader.CONTENT_TYPE, "text/plain");
                response.getHeaders().put(HttpHeader.CONTENT_LENGTH, body.length);
                response.write(true, ByteBuffer.wrap(body), callback);
                return true;
            }
        });
        server.start();
        server.join();
    }
}
