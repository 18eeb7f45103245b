// The limit on requests that run at the same time, with a bounded queue before it. Only there when the limit is set.

using Millrace.Platform;

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
    private readonly SteadyLock _lock = new();
    private readonly LinkedList<Connection> _queue = new();
    private readonly Dictionary<Connection, LinkedListNode<Connection>> _places = new();    // of those in the queue
    private int _inside;

    public int Limit => limit;

    public GateAnswer Enter(Connection connection)
    {
        using (_lock.Hold())
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

            _places.Add(connection, _queue.AddLast(connection));
            return GateAnswer.Wait;
        }
    }

    /// <summary>A request has ended: the first that waits takes its place.</summary>
    public void Leave()
    {
        Connection next;
        using (_lock.Hold())
        {
            if (_queue.First is not { } first)
            {
                _inside--;
                return;
            }

            next = first.Value;
            _queue.RemoveFirst();
            _places.Remove(next);
        }

        next.AdmitFromGate();
    }

    /// <summary>
    /// A connection waits no longer: its place in the queue is for others. One that has been admitted meanwhile is in no
    /// queue any more: it gives its turn back when it finds that in its loop's post, by <see cref="Leave"/>.
    /// </summary>
    /// <returns>False when it has been admitted.</returns>
    public bool Forget(Connection connection)
    {
        using (_lock.Hold())
        {
            if (!_places.Remove(connection, out LinkedListNode<Connection>? place))
            {
                return false;
            }

            _queue.Remove(place);
            return true;
        }
    }
}
