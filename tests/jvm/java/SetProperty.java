/** Sets a system property of the JVM in which later tools run: {@code SetProperty name value}. */
public final class SetProperty {
    public static void main(String[] args) {
        System.setProperty(args[0], args[1]);
    }
}
