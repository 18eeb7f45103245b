namespace Millrace;

/// <summary>Where handlers run.</summary>
public enum DispatchMode
{
    /// <summary>On the event loop, which is handed to another thread when a handler blocks; on worker threads for a while where that happens often.</summary>
    Adaptive,

    /// <summary>Always on the event loop. It is still handed over when a handler blocks.</summary>
    Inline,

    /// <summary>Always on worker threads.</summary>
    Workers,
}
