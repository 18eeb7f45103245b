// Listening sockets that whoever started the command has opened for the application: they go on to it. Descriptors are inherited
// as they are; systemd names the process they are meant for, and the hook puts the application's number there (sd_listen_fds(3)).

using System.Globalization;

namespace Millrace.Command.Running;

/// <param name="BySystemd">LISTEN_FDS is there, and for this process.</param>
/// <param name="AsStandardInput">Descriptor 0 is one (spawn-fcgi, lighttpd, systemd with StandardInput=socket).</param>
internal sealed record PassedSockets(bool BySystemd, bool AsStandardInput)
{
    /// <summary>Tells the hook for whom LISTEN_FDS was meant.</summary>
    public const string ProcessVariable = "MILLRACE_RUN_LISTEN_PID";

    public bool Any => BySystemd || AsStandardInput;

    public static PassedSockets OfProcess() => Find(Environment.GetEnvironmentVariable, Environment.ProcessId, Posix.IsListening(0));

    internal static PassedSockets Find(Func<string, string?> read, int process, bool standardInputListens) => new(
        !string.IsNullOrEmpty(read("LISTEN_FDS")) && read("LISTEN_PID") == process.ToString(CultureInfo.InvariantCulture),
        standardInputListens);

    /// <summary>What the application's environment needs besides.</summary>
    public void Describe(IDictionary<string, string?> environment, int process)
    {
        if (BySystemd)
        {
            environment[ProcessVariable] = process.ToString(CultureInfo.InvariantCulture);
        }
    }
}
