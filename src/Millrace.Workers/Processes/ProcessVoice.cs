// What processes of a pool have to say, to its log.

namespace Millrace.Workers.Processes;

internal sealed class ProcessVoice(Log log, TimeSpan stopLimit)
{
    private readonly SayingQueue _saying = new(log);

    public void Printed(int process, string line) => _saying.Add(log => log.Printed(process, line));

    public void GivenUp(int process, string why, string facts) => _saying.Add(log => log.ProcessGivenUp(process, why, facts));

    public void HadToBeKilled(int process) => _saying.Add(log => log.HadToBeKilled(process, stopLimit.TotalSeconds));
}
