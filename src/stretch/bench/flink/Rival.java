package stretch.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Apache Flink as a rival: reads a task per line ("job=count parallelism=2 ..."), runs it in a MiniCluster of this
 * process, and answers with a line of JSON. One process runs all tasks, so that its compiler is warm.
 *
 * <p>The settings are those that a careful user chooses: object reuse, no checkpoints, state on the heap, input in
 * memory. How often watermarks go out, and how long a network buffer waits for more, comes with the task.
 */
public final class Rival {
    public static void main(String[] arguments) throws Exception {
        BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in));
        for (String line = tasks.readLine(); line != null; line = tasks.readLine()) {
            try {
                System.out.println(run(new Task(line)));
                System.out.flush();
            } catch (Exception problem) {
                problem.printStackTrace();
                System.exit(1); // threads of a MiniCluster may outlive it
            }
        }
        System.exit(0);
    }

    private static String run(Task task) throws Exception {
        Configuration settings = new Configuration();
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        int parallelism = task.number("parallelism");
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, settings);
        environment.getConfig().enableObjectReuse();
        environment.getConfig().setAutoWatermarkInterval(task.number("watermark_ms"));
        environment.setBufferTimeout(task.number("buffer_ms"));
        Stage stage = new Stage(parallelism, Double.parseDouble(task.text("rate")), task.number("from"));
        Stage.current = stage;
        switch (task.text("job")) {
            case "count" -> Counting.build(environment, Tweets.from(task.text("input"), task.number("rows")), task);
            case "forward" -> Forwarding.build(environment, Pairs.from(task.text("input")));
            case "join" -> Joining.build(environment, Pairs.from(task.text("input")), task);
            default -> throw new IllegalArgumentException("no job " + task.text("job"));
        }
        environment.execute(task.text("job"));
        return stage.answer();
    }

    /** What is to be done, by name. */
    static final class Task {
        private final Map<String, String> parts = new HashMap<>();

        Task(String line) {
            for (String part : line.trim().split(" ")) {
                int equals = part.indexOf('=');
                parts.put(part.substring(0, equals), part.substring(equals + 1));
            }
        }

        String text(String name) {
            String found = parts.get(name);
            if (found == null) {
                throw new IllegalArgumentException("the task has no " + name);
            }
            return found;
        }

        int number(String name) {
            return Integer.parseInt(text(name));
        }
    }

    private Rival() {}
}
