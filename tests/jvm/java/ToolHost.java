import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Runs main classes inside one JVM, several at a time, because starting a JVM for each of a thousand calls would take
 * longer than the calls.
 *
 * <p>One JSON object per line on stdin: {"id": 1, "main": "CLASS", "args": [...], "stdin": "...", "limit_s": 30}.
 * One per line on stdout, in the order in which calls end: {"id": 1, "code": 0, "out": "...", "err": "..."}; the code
 * is null when the limit was reached. The host ends when stdin does.
 */
public final class ToolHost {
    /** What belongs to one call; the threads that a tool starts inherit it. */
    private static final class Call {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final InputStream in;
        final ThreadGroup threads = new ThreadGroup("call");
        volatile Integer code;

        Call(String stdin) {
            in = new ByteArrayInputStream(stdin.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** What a tool's exit is turned into. */
    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    /**
     * Tools keep counts in static fields, so each call gets its own copies of the tools' classes; the client library
     * underneath is loaded once.
     */
    private static final class FreshTools extends ClassLoader {
        private static final List<String> FRESH = List.of("org.apache.kafka.tools.", "kafka.tools.", "kafka.admin.");

        FreshTools() {
            super(ToolHost.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (FRESH.stream().noneMatch(name::startsWith)) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded != null ? loaded : findClass(name);
            }
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            try (InputStream file = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
                if (file == null) {
                    throw new ClassNotFoundException(name);
                }
                byte[] code = file.readAllBytes();
                return defineClass(name, code, 0, code.length);
            } catch (IOException error) {
                throw new ClassNotFoundException(name, error);
            }
        }
    }

    private static final InheritableThreadLocal<Call> CURRENT = new InheritableThreadLocal<>();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream REPLIES = System.out;

    public static void main(String[] args) throws IOException {
        OutputStream ownErr = System.err;
        System.setOut(dispatching(ownErr, call -> call.out));
        System.setErr(dispatching(ownErr, call -> call.err));
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setIn(dispatchingIn());
        interceptExits();
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            JsonNode request = JSON.readTree(line);
            Thread caller = new Thread(() -> answer(request), "call-" + request.get("id"));
            caller.setDaemon(true);
            caller.start();
        }
        Runtime.getRuntime().halt(0);
    }

    /** By its name, because Kafka 4.4 has moved the class. */
    private static void interceptExits() {
        Class<?> exits = Stream.of("org.apache.kafka.common.utils.internals.Exit", "org.apache.kafka.common.utils.Exit")
                .flatMap(ToolHost::found)
                .findFirst()
                .orElseThrow();
        try {
            Class<?> procedure = Class.forName(exits.getName() + "$Procedure");
            Object exiting = Proxy.newProxyInstance(
                    procedure.getClassLoader(), new Class<?>[] {procedure}, (proxy, method, args) -> {
                        exit((int) args[0]);
                        return null;
                    });
            exits.getMethod("setExitProcedure", procedure).invoke(null, exiting);
            exits.getMethod("setHaltProcedure", procedure).invoke(null, exiting);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private static Stream<Class<?>> found(String name) {
        try {
            return Stream.of(Class.forName(name));
        } catch (ClassNotFoundException error) {
            return Stream.empty();
        }
    }

    private static void exit(int code) {
        Call call = CURRENT.get();
        if (call.code == null) {
            call.code = code;
        }
        throw new Exited();
    }

    private static void answer(JsonNode request) {
        Call call = new Call(request.path("stdin").asText());
        CURRENT.set(call);
        Thread runner = new Thread(call.threads, () -> run(request, call), "main-" + request.get("id"));
        runner.setDaemon(true);
        runner.start();
        try {
            runner.join((long) (request.get("limit_s").asDouble() * 1000));
        } catch (InterruptedException error) {
            throw new AssertionError(error);
        }
        ObjectNode reply = JSON.createObjectNode().put("id", request.get("id").asInt());
        reply.put("code", runner.isAlive() ? null : call.code);
        reply.put("out", call.out.toString(StandardCharsets.UTF_8));
        reply.put("err", call.err.toString(StandardCharsets.UTF_8));
        runner.interrupt();
        synchronized (REPLIES) {
            REPLIES.println(reply);
            REPLIES.flush();
        }
    }

    private static void run(JsonNode request, Call call) {
        List<String> args = new ArrayList<>();
        request.get("args").forEach(arg -> args.add(arg.asText()));
        ClassLoader loader = new FreshTools();
        Thread.currentThread().setContextClassLoader(loader);
        try {
            Method main = loader.loadClass(request.get("main").asText()).getMethod("main", String[].class);
            main.setAccessible(true);
            main.invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Exited)) {
                error.getCause().printStackTrace();
                call.code = 1;
            }
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            call.code = 1;
        }
        if (call.code == null) {
            call.code = 0;
        }
        runShutdownHooks(call);
    }

    /** Some tools close their clients and print their summary when the JVM ends: to them it ends now. */
    @SuppressWarnings("unchecked")
    private static void runShutdownHooks(Call call) {
        Map<Thread, Thread> hooks;
        try {
            Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
            field.setAccessible(true);
            hooks = Map.copyOf((Map<Thread, Thread>) field.get(null));
        } catch (ReflectiveOperationException error) {
            throw new AssertionError("the JVM was not started with --add-opens java.base/java.lang=ALL-UNNAMED", error);
        }
        for (Thread hook : hooks.keySet()) {
            if (hook.getThreadGroup() == call.threads) {
                Runtime.getRuntime().removeShutdownHook(hook);
                hook.run();
            }
        }
    }

    private static PrintStream dispatching(OutputStream own, Function<Call, OutputStream> stream) {
        OutputStream target = new OutputStream() {
            private OutputStream current() {
                Call call = CURRENT.get();
                return call == null ? own : stream.apply(call);
            }

            @Override
            public void write(int one) throws IOException {
                current().write(one);
            }

            @Override
            public void write(byte[] bytes, int offset, int length) throws IOException {
                current().write(bytes, offset, length);
            }
        };
        return new PrintStream(target, true, StandardCharsets.UTF_8);
    }

    private static InputStream dispatchingIn() {
        return new InputStream() {
            @Override
            public int read() throws IOException {
                return CURRENT.get().in.read();
            }

            @Override
            public int read(byte[] bytes, int offset, int length) throws IOException {
                return CURRENT.get().in.read(bytes, offset, length);
            }
        };
    }
}
