package stretch.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/** Tweets in memory, from a file with a line of time, user and text, separated by tabs; sorted by time. */
final class Tweets {
    private static String loaded = "";
    private static Tweets all;
    static volatile Tweets current; // for functions, which are copied to subtasks without it

    final long[] times;
    final String[] users;
    final String[] texts;

    private Tweets(long[] times, String[] users, String[] texts) {
        this.times = times;
        this.users = users;
        this.texts = texts;
    }

    /** Return the first tweets of a file, which is read once. */
    static Tweets from(String file, int rows) throws IOException {
        if (!loaded.equals(file)) {
            List<String> lines = Files.readAllLines(Path.of(file));
            Tweets read = new Tweets(new long[lines.size()], new String[lines.size()], new String[lines.size()]);
            for (int number = 0; number < lines.size(); number++) {
                String[] parts = lines.get(number).split("\t", 3);
                read.times[number] = Long.parseLong(parts[0]);
                read.users[number] = parts[1];
                read.texts[number] = parts[2];
            }
            all = read;
            loaded = file;
        }
        current = new Tweets(
                Arrays.copyOf(all.times, rows), Arrays.copyOf(all.users, rows), Arrays.copyOf(all.texts, rows));
        return current;
    }

    int size() {
        return times.length;
    }

    /** Return the first tweet that is not before a time, or the number of tweets if there is none. */
    int firstFrom(long time) {
        int found = Arrays.binarySearch(times, time);
        if (found < 0) {
            return -found - 1;
        }
        while (found > 0 && times[found - 1] == time) {
            found--;
        }
        return found;
    }

    /** Every `sources`-th tweet to each source, so that all of them go forward in time together. */
    SingleOutputStreamOperator<Tweet> stream(StreamExecutionEnvironment environment, int sources) {
        long each = (size() + sources - 1) / sources;
        return environment
                .fromSource(new NumberSequenceSource(0, each * sources - 1), WatermarkStrategy.noWatermarks(), "tweets")
                .setParallelism(sources)
                .flatMap(new Take(each, sources))
                .setParallelism(sources);
    }

    static WatermarkStrategy<Tweet> byTime() {
        return WatermarkStrategy.<Tweet>forMonotonousTimestamps().withTimestampAssigner((tweet, before) -> tweet.time);
    }

    /** A tuple; public fields and an empty constructor make it a POJO, which Flink serialises fast. */
    public static final class Tweet {
        public int number;
        public long time;
        public String user;
        public String text;
    }

    /** Number i of the sequence is tweet (i mod each) * sources + i / each: ranges are dealt, tweets are interleaved. */
    private static final class Take extends RichFlatMapFunction<Long, Tweet> {
        private final long each;
        private final int sources;

        Take(long each, int sources) {
            this.each = each;
            this.sources = sources;
        }

        @Override
        public void flatMap(Long index, Collector<Tweet> out) {
            Tweets tweets = current;
            long number = (index % each) * sources + index / each;
            if (number < tweets.size()) {
                Stage.current.await(number);
                Tweet tweet = new Tweet();
                tweet.number = (int) number;
                tweet.time = tweets.times[(int) number];
                tweet.user = tweets.users[(int) number];
                tweet.text = tweets.texts[(int) number];
                out.collect(tweet);
            }
        }
    }
}
