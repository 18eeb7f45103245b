// Calls that wait, first come first served. One that is given up leaves from the middle. Belongs to whoever holds the dispatcher's lock.

namespace Millrace.Workers;

internal sealed class CallQueue<TWorker>
{
    private Call<TWorker>? _last;

    public int Count { get; private set; }

    /// <summary>The one that has waited longest.</summary>
    public Call<TWorker>? First { get; private set; }

    public void Add(Call<TWorker> call)
    {
        call.Before = _last;
        if (_last is null)
        {
            First = call;
        }
        else
        {
            _last.Behind = call;
        }
        _last = call;
        Count++;
    }

    public void Remove(Call<TWorker> call)
    {
        if (call.Before is null)
        {
            First = call.Behind;
        }
        else
        {
            call.Before.Behind = call.Behind;
        }
        if (call.Behind is null)
        {
            _last = call.Before;
        }
        else
        {
            call.Behind.Before = call.Before;
        }
        call.Before = null;
        call.Behind = null;
        Count--;
    }

    public Call<TWorker>? Take()
    {
        Call<TWorker>? first = First;
        if (first is not null)
        {
            Remove(first);
        }
        return first;
    }
}
