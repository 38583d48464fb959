// SPDX-License-Identifier: MIT

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Netty's HashedWheelTimer, 100 ms x 512. It has a thread of its own that does
 * most of the work at the next tick, so what counts is the CPU time of all
 * threads until that thread has come to rest, garbage collection included.
 *
 * <p>usage: NettyBench N,... REPETITIONS; writes the same CSV as bench.c.
 */
public final class NettyBench {
  private static final long TICK_MS = 100;
  private static final int MOVED_PER_TICK = 100000; // a constant of Netty
  private static final int HOT = 1000;

  private final int n;
  private final int[] ordered;
  private final int[] shuffled;
  private final int[] random;
  private final int[] hot;
  private final Timeout[] timeouts;
  private final AtomicInteger fired = new AtomicInteger();
  private final TimerTask task = timeout -> fired.incrementAndGet();
  private HashedWheelTimer timer;

  private interface Operation {
    void on(int index);
  }

  private NettyBench(int n) {
    Random numbers = new Random(1);
    this.n = n;
    ordered = new int[n];
    shuffled = new int[n];
    random = new int[n];
    hot = new int[n];
    timeouts = new Timeout[n];
    for (int i = 0; i < n; i++) {
      int j = numbers.nextInt(i + 1);
      ordered[i] = i;
      shuffled[i] = shuffled[j];
      shuffled[j] = i;
    }
    for (int i = 0; i < n; i++) {
      random[i] = numbers.nextInt(n);
      hot[i] = shuffled[numbers.nextInt(HOT)];
    }
  }

  /** CPU time in ns of all threads. */
  private static long cpu() throws IOException {
    long sum = 0;
    try (DirectoryStream<Path> tasks =
        Files.newDirectoryStream(Path.of("/proc/self/task"))) {
      for (Path one : tasks) {
        String text = Files.readString(one.resolve("schedstat"));
        sum += Long.parseLong(text.substring(0, text.indexOf(' ')));
      }
    } catch (NoSuchFileException e) {
      return cpu(); // a thread ended meanwhile
    }
    return sum;
  }

  /** Bytes in use. */
  private static long heap() {
    System.gc();
    Runtime runtime = Runtime.getRuntime();
    return runtime.totalMemory() - runtime.freeMemory();
  }

  /** A thread that does not keep the program alive when this one fails. */
  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true);
    return thread;
  }

  private void start(int index, long timeoutMs) {
    timeouts[index] =
        timer.newTimeout(task, timeoutMs, TimeUnit.MILLISECONDS);
  }

  private void refresh(int index) {
    timeouts[index].cancel();
    start(index, 60000);
  }

  /** Lets the timer's thread take over what was queued for it. */
  private void settle() throws InterruptedException {
    Thread.sleep((n / MOVED_PER_TICK + 3) * TICK_MS);
  }

  private double sweep(Operation operation, int[] order) throws Exception {
    long begin = cpu();
    for (int index : order) {
      operation.on(index);
    }
    settle();
    return (double) (cpu() - begin) / n;
  }

  private double expire() throws Exception {
    Random numbers = new Random(2);
    long settled = (n / MOVED_PER_TICK + 3) * TICK_MS + n / 1000;
    for (int index : shuffled) {
      start(index, settled + numbers.nextInt(1000));
    }
    settle();
    long begin = cpu();
    while (fired.get() < n) {
      Thread.sleep(TICK_MS);
    }
    return (double) (cpu() - begin) / n;
  }

  private void print(int repetition, String workload, double value,
      String unit) {
    if (repetition > 0) {
      System.out.printf("Netty HashedWheelTimer,%s,%d,%d,%.6g,%s%n", workload,
          n, repetition, value, unit);
    }
  }

  private void run(int repetition) throws Exception {
    timer = new HashedWheelTimer(NettyBench::daemon, TICK_MS,
        TimeUnit.MILLISECONDS, 512);
    timer.start();
    fired.set(0);
    Arrays.fill(timeouts, null);
    long before = heap();
    print(repetition, "start in memory order",
        sweep(i -> start(i, 60000), ordered), "ns");
    if (repetition == 0) { // later on the heap has leftovers
      print(1, "memory per timer", (double) (heap() - before) / n, "bytes");
    }
    print(repetition, "refresh random", sweep(this::refresh, random), "ns");
    print(repetition, "refresh hot", sweep(this::refresh, hot), "ns");
    print(repetition, "stop shuffled",
        sweep(i -> timeouts[i].cancel(), shuffled), "ns");
    print(repetition, "start shuffled", sweep(i -> start(i, 60000), shuffled),
        "ns");
    if (n == 1000000 && repetition > 0) {
      long begin = cpu();
      Thread.sleep(10000);
      print(repetition, "idle for 10 s", (cpu() - begin) / 1e6, "ms");
    }
    sweep(i -> timeouts[i].cancel(), shuffled);
    print(repetition, "expire", expire(), "ns");
    timer.stop();
  }

  public static void main(String[] arguments) throws Exception {
    int repetitions = Integer.parseInt(arguments[1]);
    for (String size : arguments[0].split(",")) {
      System.err.printf("%9s timers, Netty ...%n", size);
      NettyBench bench = new NettyBench(Integer.parseInt(size));
      for (int i = 0; i <= repetitions; i++) { // the first one warms up
          bench.run(i);
      }
    }
  }
}
