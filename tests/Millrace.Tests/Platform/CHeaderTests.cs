// SystemCalls*.cs against the C headers: for x64 with gcc, for arm64 with its cross compiler and against musl where they are installed.
// A constant, a structure or an import that is wrong is found by the compiler, one that the C library lacks by the linker.

using System.Diagnostics;
using System.Reflection;
using System.Runtime.InteropServices;
using Millrace.Loops;
using Millrace.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Platform;

public sealed class CHeaderTests(ITestOutputHelper output) : IDisposable
{
    private static readonly Compiler s_gcc = new("gcc", "build-essential", Architecture.X64, []);

    private static readonly Compiler s_arm64 = new("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross", Architecture.Arm64, []);

    // Its own headers come first; those of the kernel are the machine's.
    private static readonly Compiler s_musl = new("musl-gcc", "musl-tools", Architecture.X64, ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]);

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData("gcc")]
    [InlineData("aarch64-linux-gnu-gcc")]
    [InlineData("musl-gcc")]
    public void Constants_structures_and_imports_are_those_of_the_C_headers(string name)
    {
        Compiler compiler = new[] { s_gcc, s_arm64, s_musl }.Single(one => one.Name == name);
        if (compiler != s_gcc && !compiler.IsInstalled)
        {
            output.WriteLine($"{name} is not installed (apt-get install {compiler.Package}): checked for x64 with gcc only.");
            compiler = s_gcc;
        }

        string program = CHeaders.Write(typeof(SystemCalls), SystemCalls.ArchitectureNumbers.Of(compiler.Architecture));
        Assert.True(program.Split('\n').Count(static line => line.Contains("_Static_assert", StringComparison.Ordinal)) > 200, program);
        Assert.Equal("", Compile(compiler, program));
    }

    [Theory]
    [InlineData("statx")] // 1.2.5
    [InlineData("fchmodat2")]
    [InlineData("renameat2")]
    [InlineData("preadv2")]
    [InlineData("gettid")] // 1.2.0, glibc 2.30
    public void Functions_that_the_C_libraries_of_supported_systems_lack_are_called_by_number(string name) =>
        Assert.DoesNotContain(typeof(SystemCalls).GetMethods(BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic), method =>
            method.GetCustomAttribute<DllImportAttribute>()?.EntryPoint == name);

    [Theory]
    [InlineData(typeof(WrongConstant), "EPOLLIN")]
    [InlineData(typeof(NoSuchConstant), "EPOLLNOTHING")]
    [InlineData(typeof(WrongSize), "struct linger: size")]
    [InlineData(typeof(WrongOrder), "struct linger.l_onoff: offset")]
    [InlineData(typeof(WrongWidth), "different width")]
    [InlineData(typeof(WrongResult), "recv: result")]
    [InlineData(typeof(TooFewArguments), "too few arguments")]
    [InlineData(typeof(TooManyArguments), "too many arguments")]
    [InlineData(typeof(NoPointer), "pointer from integer")]
    [InlineData(typeof(WrongPointer), "incompatible pointer type")]
    [InlineData(typeof(NoSuchFunction), "no_such_function")]
    public void A_declaration_that_differs_is_found_out(Type declarations, string complaint) =>
        Assert.Contains(complaint, Compile(s_gcc, CHeaders.Write(declarations, numbers: null)), StringComparison.Ordinal);

    [Theory]
    [InlineData(Architecture.X64, Architecture.Arm64)]
    [InlineData(Architecture.Arm64, Architecture.X64)]
    public void The_numbers_of_another_architecture_are_found_out(Architecture compiled, Architecture given)
    {
        Compiler compiler = compiled == Architecture.X64 || !s_arm64.IsInstalled ? s_gcc : s_arm64;
        Architecture other = compiler.Architecture == given ? compiled : given;
        string complaints = Compile(compiler, CHeaders.Write(typeof(SystemCalls), SystemCalls.ArchitectureNumbers.Of(other)));
        Assert.All(["SYS_statx", "SYS_renameat2", "O_DIRECTORY", "O_NOFOLLOW", "EpollEventSize", "EpollDataOffset"],
            name => Assert.Contains(name, complaints, StringComparison.Ordinal));
    }

    /// <summary>Compiles and links; answers what the compiler has to complain of.</summary>
    private string Compile(Compiler compiler, string program)
    {
        string source = _folder.PathOf("check.c");
        File.WriteAllText(source, program);
        string[] arguments =
        [
            "-std=gnu11", "-D_GNU_SOURCE", "-Wtraditional-conversion", "-Werror=implicit-function-declaration", "-Werror=int-conversion",
            "-Werror=incompatible-pointer-types", .. compiler.Arguments, "-pthread", "-o", _folder.PathOf("check"), source,
        ];
        var start = new ProcessStartInfo(compiler.Name, arguments) { RedirectStandardError = true, Environment = { ["LC_ALL"] = "C" } };
        using Process process = Start(start, compiler);
        string[] complaints = process.StandardError.ReadToEnd().Split('\n');
        process.WaitForExit();

        // That nint stands for size_t as well as for ssize_t is no difference to the machine.
        return string.Join('\n', complaints.Where(line =>
            line.Contains("error", StringComparison.Ordinal) || line.Contains("different width", StringComparison.Ordinal) || line.Contains("undefined reference", StringComparison.Ordinal)
            || (process.ExitCode != 0 && !line.Contains("warning", StringComparison.Ordinal))));
    }

    private static Process Start(ProcessStartInfo start, Compiler compiler)
    {
        try
        {
            return Process.Start(start)!;
        }
        catch (System.ComponentModel.Win32Exception)
        {
            throw new InvalidOperationException($"The C headers need {compiler.Name}: run `apt-get install {compiler.Package}`.");
        }
    }

    private sealed record Compiler(string Name, string Package, Architecture Architecture, string[] Arguments)
    {
        public bool IsInstalled => (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':').Any(folder => File.Exists(Path.Combine(folder, Name)));
    }

#pragma warning disable SYSLIB1054, CA1823, IDE0051, IDE0044, CS0649, CS0169, CA1812 // declared wrong on purpose, and never used
    private static class WrongConstant
    {
        private const uint EPOLLIN = 2;
    }

    private static class NoSuchConstant
    {
        private const uint EPOLLNOTHING = 2;
    }

    private static class WrongSize
    {
        private struct Linger
        {
            public int On;
            public long Seconds;
        }
    }

    private static class WrongOrder
    {
        [StructLayout(LayoutKind.Explicit, Size = 8)]
        private struct Linger
        {
            [FieldOffset(4)]
            public int On;

            [FieldOffset(0)]
            public int Seconds;
        }
    }

    private static unsafe class WrongWidth
    {
        [DllImport("libc", EntryPoint = "recv")]
        private static extern nint Receive(int socket, void* buffer, int size, int flags);
    }

    private static unsafe class WrongResult
    {
        [DllImport("libc", EntryPoint = "recv")]
        private static extern int Receive(int socket, void* buffer, nint size, int flags);
    }

    private static unsafe class TooFewArguments
    {
        [DllImport("libc", EntryPoint = "recv")]
        private static extern nint Receive(int socket, void* buffer, nint size);
    }

    private static unsafe class TooManyArguments
    {
        [DllImport("libc", EntryPoint = "recv")]
        private static extern nint Receive(int socket, void* buffer, nint size, int flags, int more);
    }

    private static class NoPointer
    {
        [DllImport("libc", EntryPoint = "recv")]
        private static extern nint Receive(int socket, nint buffer, nint size, int flags);
    }

    private static unsafe class WrongPointer
    {
        [DllImport("libc", EntryPoint = "accept")]
        private static extern int Accept(int socket, void* address, long* length);
    }

    private static class NoSuchFunction
    {
        [DllImport("libc", EntryPoint = "no_such_function")]
        private static extern int Nothing();
    }
#pragma warning restore SYSLIB1054, CA1823, IDE0051, IDE0044, CS0649, CS0169, CA1812
}
