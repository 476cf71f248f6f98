// prony lab, host @HOST@: the HTTP server of the Java runtime serves the files of the file server from memory.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.concurrent.Executors;

public class JvmFiles {
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
        var backlog = "@BACKLOG@";
        var server = HttpServer.create(new InetSocketAddress(80), backlog.isEmpty() ? 2048 : Integer.parseInt(backlog));
        server.createContext("/", exchange -> {
            var body = files.get(exchange.getRequestURI().getPath());
            exchange.getResponseHeaders().set("Content-Type", "text/plain");
            // -1 says that there is no body.
            exchange.sendResponseHeaders(body == null ? 404 : 200, body == null || body.length == 0 ? -1 : body.length);
            if (body != null && body.length > 0) {
                exchange.getResponseBody().write(body);
            }
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(THREADS));
        server.start();
    }
}
