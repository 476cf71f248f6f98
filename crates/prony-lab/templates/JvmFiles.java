// prony lab, host @HOST@: the HTTP server of the Java runtime serves the files of the file server from memory.
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

public class JvmFiles {
    // As many as httpd has.
    static final int THREADS = @ALL_THREADS@;
    static final long DELAY_MS = @DELAY_MS@;
    static final boolean ONE_LOCK = @ONE_LOCK@;
    static final Object LOCK = new Object();
    // Small objects, a few of which each request replaces: garbage among what stays.
    static final int SMALL = 64, REPLACED = 500;
    static final byte[][] KEPT = new byte[@KEPT_MIB@ * 1024 * 1024 / SMALL][SMALL];
    static final AtomicInteger NEXT = new AtomicInteger();

    static void work() throws IOException {
        try {
            // A lock of its own for each request is no lock.
            synchronized (ONE_LOCK ? LOCK : new Object()) {
                if (DELAY_MS > 0) {
                    Thread.sleep(DELAY_MS);
                }
            }
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        for (int i = 0; i < REPLACED && KEPT.length > 0; i++) {
            KEPT[Math.floorMod(NEXT.getAndIncrement() * 7919, KEPT.length)] = new byte[SMALL];
        }
    }

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
            work();
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
