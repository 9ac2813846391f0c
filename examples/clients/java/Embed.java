import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * Embeds texts with the standard library of Java 17 or newer, and compares the first two:
 *
 * <pre>java Embed.java http://localhost:8080 "A cat sleeps." "A kitten naps."</pre>
 *
 * The environment variable API_KEY is the server's key, if it has one. Java's library has no JSON,
 * so the vectors come as bytes: float32, little-endian, one text after the other.
 */
public class Embed {
    private static final int TRIES = 5;
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    public static void main(String[] arguments) throws IOException, InterruptedException {
        if (arguments.length < 3) {
            fail("usage: java Embed.java URL TEXT TEXT …");
        }
        List<String> texts = Arrays.asList(arguments).subList(1, arguments.length);
        float[][] vectors = embed(arguments[0], texts);
        System.out.printf(
                Locale.ROOT,
                "%d vectors of %d dimensions; cosine of the first two: %.6f%n",
                vectors.length, vectors[0].length, cosine(vectors[0], vectors[1]));
    }

    /** Returns a vector for each text. Repeats a request that the server has no room for. */
    static float[][] embed(String url, List<String> texts) throws IOException, InterruptedException {
        String inputs = texts.stream().map(Embed::quote).collect(Collectors.joining(","));
        HttpRequest request = request(url + "/embed", "{\"inputs\":[" + inputs + "]}");
        for (int attempt = 1; ; attempt++) {
            HttpResponse<byte[]> response = CLIENT.send(request, BodyHandlers.ofByteArray());
            int status = response.statusCode();
            if (attempt < TRIES && (status == 429 || status == 503)) {
                Thread.sleep(1000 * response.headers().firstValueAsLong("retry-after").orElse(1));
            } else if (status == 200) {
                return vectors(response.body(), texts.size());
            } else {  // the error is JSON; a program reads its field "code"
                fail("status " + status + ": " + new String(response.body(), StandardCharsets.UTF_8));
            }
        }
    }

    private static HttpRequest request(String url, String body) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(url))
                .header("content-type", "application/json")
                .header("accept", "application/octet-stream")
                .POST(BodyPublishers.ofString(body));
        String key = System.getenv("API_KEY");
        return (key == null ? builder : builder.header("authorization", "Bearer " + key)).build();
    }

    private static float[][] vectors(byte[] body, int count) {
        float[][] vectors = new float[count][body.length / Float.BYTES / count];
        var numbers = ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
        for (float[] vector : vectors) {
            numbers.get(vector);
        }
        return vectors;
    }

    /** Writes a text as JSON. */
    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    private static double cosine(float[] a, float[] b) {
        double product = 0, square = 0, other = 0;
        for (int i = 0; i < a.length; i++) {
            product += (double) a[i] * b[i];
            square += (double) a[i] * a[i];
            other += (double) b[i] * b[i];
        }
        return product / Math.sqrt(square * other);
    }

    private static void fail(String message) {
        System.err.println(message);
        System.exit(1);
    }
}
