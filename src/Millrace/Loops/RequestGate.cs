// The limit on requests that run at the same time, with a bounded queue before it. Only there when the limit is set.

using Millrace.Connections;

namespace Millrace.Loops;

internal enum GateAnswer
{
    Enter,

    /// <summary>The connection stands in the queue; it is posted to its loop when it may enter.</summary>
    Wait,

    Full,
}

internal sealed class RequestGate(int limit, int queueLimit)
{
    private readonly Lock _lock = new();
    private readonly Queue<Connection> _queue = new();
    private int _inside;

    public int Limit => limit;

    public GateAnswer Enter(Connection connection)
    {
        lock (_lock)
        {
            if (_inside < limit)
            {
                _inside++;
                return GateAnswer.Enter;
            }

            if (_queue.Count >= queueLimit)
            {
                return GateAnswer.Full;
            }

            _queue.Enqueue(connection);
            return GateAnswer.Wait;
        }
    }

    /// <summary>A request has ended: the first that waits takes its place.</summary>
    public void Leave()
    {
        Connection? next;
        lock (_lock)
        {
            if (!_queue.TryDequeue(out next))
            {
                _inside--;
                return;
            }
        }

        next.AdmitFromGate();
    }
}
