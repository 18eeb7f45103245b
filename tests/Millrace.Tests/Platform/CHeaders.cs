// Writes a C program that holds declarations of C# to the C headers: a static assertion for each constant, each size and each field, and
// a call of each import with arguments as wide as C# passes them. The declarations are found by reflection, so a new one is in it by itself.

using System.Globalization;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Platform;

internal static class CHeaders
{
    private const string Includes = """
        #include <stddef.h>
        #include <sys/types.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <grp.h>
        #include <netinet/in.h>
        #include <netinet/tcp.h>
        #include <pthread.h>
        #include <pwd.h>
        #include <sched.h>
        #include <signal.h>
        #include <stdio.h>
        #include <sys/epoll.h>
        #include <sys/eventfd.h>
        #include <sys/file.h>
        #include <sys/ioctl.h>
        #include <sys/resource.h>
        #include <sys/sendfile.h>
        #include <sys/socket.h>
        #include <sys/stat.h>
        #include <sys/syscall.h>
        #include <sys/uio.h>
        #include <sys/un.h>
        #include <time.h>
        #include <unistd.h>
        #include <linux/filter.h>
        #include <linux/sockios.h>
        #include <linux/stat.h>
        #ifndef RENAME_NOREPLACE
        #include <linux/fs.h>
        #endif
        struct descriptor_message { struct cmsghdr header; int descriptor; int padding; };
        #ifdef __GLIBC__
        typedef unsigned long ioctl_request;
        #else
        typedef int ioctl_request;
        #endif

        """;

    /// <summary>Constants that no C header has, each with the reason why.</summary>
    private static readonly Dictionary<string, string> s_ownConstants = new()
    {
        ["KeepId"] = "(uid_t)-1, which chown(2) describes in words",
        ["SocketAddressSizeMax"] = "room for any sockaddr, of our choosing; that sockaddr_un fits is asserted apart",
    };

    /// <summary>Constants that older headers do not have: compared where they are defined.</summary>
    private static readonly HashSet<string> s_newConstants = ["SYS_fchmodat2", "SO_PASSRIGHTS", "SCM_PIDFD"];

    /// <summary>What is written in C as more than a name.</summary>
    private static readonly Dictionary<string, string> s_expressions = new()
    {
        ["EpollEventSize"] = "sizeof(struct epoll_event)",
        ["EpollDataOffset"] = "offsetof(struct epoll_event, data)",
    };

    /// <summary>Structures: the name in C, and the fields in the order of C#.</summary>
    private static readonly Dictionary<string, (string Name, string[] Fields)> s_structures = new()
    {
        ["TimeSpecification"] = ("struct timespec", ["tv_sec", "tv_nsec"]),
        ["IoVector"] = ("struct iovec", ["iov_base", "iov_len"]),
        ["MessageHeader"] = ("struct msghdr", ["msg_name", "msg_namelen", "msg_iov", "msg_iovlen", "msg_control", "msg_controllen", "msg_flags"]),
        ["DescriptorMessage"] = ("struct descriptor_message", ["header.cmsg_len", "header.cmsg_level", "header.cmsg_type", "descriptor", "padding"]),
        ["ResourceLimit"] = ("struct rlimit", ["rlim_cur", "rlim_max"]),
        ["Linger"] = ("struct linger", ["l_onoff", "l_linger"]),
        ["FilterInstruction"] = ("struct sock_filter", ["code", "jt", "jf", "k"]),
        ["FilterProgram"] = ("struct sock_fprog", ["len", "filter"]),
        ["PeerCredentials"] = ("struct ucred", ["pid", "uid", "gid"]),
        ["FileStatus"] = ("struct statx", ["stx_nlink", "stx_uid", "stx_gid", "stx_mode", "stx_ino", "stx_size", "stx_mtime.tv_sec", "stx_mtime.tv_nsec", "stx_dev_major", "stx_dev_minor"]),
        ["GroupEntry"] = ("struct group", ["gr_name", "gr_passwd", "gr_gid", "gr_mem"]),
        ["UserEntry"] = ("struct passwd", ["pw_name", "pw_passwd", "pw_uid", "pw_gid", "pw_gecos", "pw_dir", "pw_shell"]),
    };

    /// <summary>Parameters whose type in C is another one that C# has no use for.</summary>
    private static readonly Dictionary<(string Import, int Parameter), string> s_otherTypes = new()
    {
        [("ioctl", 1)] = "ioctl_request", // musl takes an int, of a register that is as wide
        [("pthread_getschedparam", 0)] = "pthread_t",
        [("pthread_getschedparam", 2)] = "struct sched_param *",
        [("pthread_setschedparam", 0)] = "pthread_t", // a number to glibc, a pointer to musl: as wide as what pthread_self answers
        [("pthread_setschedparam", 2)] = "struct sched_param *", // of which Linux reads the first field
    };

    /// <summary>The program for the declarations of a class and the types nested in it.</summary>
    /// <param name="declarations">Constants, structures and imports.</param>
    /// <param name="numbers">A structure whose properties are what differs by architecture, with its value for the architecture compiled for; or null.</param>
    public static string Write(Type declarations, object? numbers)
    {
        const BindingFlags Own = BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.DeclaredOnly;
        var text = new StringBuilder(Includes);
        foreach (FieldInfo constant in declarations.GetFields(Own).Where(static field => field.IsLiteral && !s_ownConstants.ContainsKey(field.Name)))
        {
            WriteNumber(text, constant.Name, constant.GetRawConstantValue()!);
        }

        foreach (PropertyInfo number in numbers?.GetType().GetProperties() ?? [])
        {
            WriteNumber(text, number.Name, number.GetValue(numbers)!);
        }

        foreach (Type structure in declarations.GetNestedTypes(BindingFlags.Public | BindingFlags.NonPublic).Where(type => type.IsValueType && type != numbers?.GetType()))
        {
            WriteStructure(text, structure);
        }

        foreach (MethodInfo import in declarations.GetMethods(Own).Where(static method => method.GetCustomAttribute<DllImportAttribute>() is not null))
        {
            WriteImport(text, import);
        }

        text.AppendLine(CultureInfo.InvariantCulture, $"_Static_assert(sizeof(struct sockaddr_un) <= {SystemCalls.SocketAddressSizeMax}, \"SocketAddressSizeMax\");");
        return text.AppendLine("int main(void) { return 0; }").ToString();
    }

    private static void WriteNumber(StringBuilder text, string name, object value)
    {
        string expression = s_expressions.GetValueOrDefault(name, name);
        string type = value is uint or ulong ? "unsigned long long" : "long long";
        string assertion = string.Create(
            CultureInfo.InvariantCulture, $"_Static_assert(({type})({(value is uint ? "(unsigned)" : "")}({expression})) == {value}{(value is uint or ulong ? "ULL" : "LL")}, \"{name}\");");
        text.AppendLine(s_newConstants.Contains(name) ? $"#ifdef {name}\n{assertion}\n#endif" : assertion);
    }

    private static void WriteStructure(StringBuilder text, Type structure)
    {
        (string name, string[] inC) = s_structures.TryGetValue(structure.Name, out var known)
            ? known
            : throw new InvalidOperationException($"{structure.FullName} has no name in C: add it to {nameof(CHeaders)}.{nameof(s_structures)}.");
        FieldInfo[] fields = structure.GetFields(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic);
        if (fields.Length != inC.Length)
        {
            throw new InvalidOperationException($"{structure.FullName} has {fields.Length} fields, and {inC.Length} names in C: name all of them in {nameof(CHeaders)}.{nameof(s_structures)}.");
        }

        text.AppendLine(CultureInfo.InvariantCulture, $"_Static_assert(sizeof({name}) == {Marshal.SizeOf(structure)}, \"{name}: size\");");
        foreach ((FieldInfo field, string member) in fields.Zip(inC))
        {
            text.AppendLine(CultureInfo.InvariantCulture, $"_Static_assert(offsetof({name}, {member}) == {Marshal.OffsetOf(structure, field.Name)}, \"{name}.{member}: offset\");");
            text.AppendLine("#ifdef __GLIBC__"); // musl has narrower lengths with padding behind them
            text.AppendLine(CultureInfo.InvariantCulture, $"_Static_assert(sizeof((({name} *)0)->{member}) == {SizeOf(field.FieldType)}, \"{name}.{member}: size\");");
            text.AppendLine("#endif");
        }
    }

    // Compiled, a call has the right number of arguments, each of the right kind; gcc tells of widths that differ; linked, the function is there.
    private static void WriteImport(StringBuilder text, MethodInfo import)
    {
        string name = import.GetCustomAttribute<DllImportAttribute>()!.EntryPoint ?? import.Name;
        IEnumerable<string> types = import.GetParameters().Select((parameter, i) => s_otherTypes.GetValueOrDefault((name, i)) ?? TypeInC(parameter.ParameterType));
        string parameters = string.Join(", ", types.Select(static (type, i) => $"{type} a{i}"));
        string call = $"{name}({string.Join(", ", types.Select(static (_, i) => $"a{i}"))})";
        text.AppendLine(CultureInfo.InvariantCulture, $"void check_{import.Name}_{import.MetadataToken:x}({(parameters.Length == 0 ? "void" : parameters)}) {{ (void){call};");
        text.AppendLine(CultureInfo.InvariantCulture, $"    _Static_assert(sizeof({call}) == {SizeOf(import.ReturnType)}, \"{name}: result\"); }}");
    }

    private static string TypeInC(Type type) => type switch
    {
        { IsPointer: true } when type.GetElementType() == typeof(byte) || type.GetElementType() == typeof(void) => "void *",
        { IsPointer: true } => TypeInC(type.GetElementType()!) + " *",
        { IsValueType: true, IsPrimitive: false } => s_structures[type.Name].Name,
        _ when type == typeof(int) => "int",
        _ when type == typeof(uint) => "unsigned int",
        _ when type == typeof(long) || type == typeof(nint) => "long",
        _ when type == typeof(ulong) || type == typeof(nuint) => "unsigned long",
        _ => throw new InvalidOperationException($"{type} has no name in C: add it to {nameof(CHeaders)}.{nameof(TypeInC)}."),
    };

    private static int SizeOf(Type type) => type.IsPointer ? IntPtr.Size : Marshal.SizeOf(type);
}
