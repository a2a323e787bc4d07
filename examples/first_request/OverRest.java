import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

public class OverRest {
    public static void main(String[] args) throws Exception {
        var uri = URI.create("http://localhost:8501/v1/models/half_plus_two:predict");
        var body = HttpRequest.BodyPublishers.ofString("{\"instances\": [1.0, 2.0, 5.0]}");
        var request = HttpRequest.newBuilder(uri).POST(body).build();
        var reply = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        if (reply.statusCode() != 200) {
            throw new RuntimeException(reply.body()); // {"error": "..."}
        }
        System.out.println(reply.body());
    }
}
