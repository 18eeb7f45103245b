namespace Millrace.Protocols;

/// <summary>The three answers of every reader in this layer. Readers never throw for bad input.</summary>
public enum ReadResult
{
    /// <summary>A whole item was read; the reader says how many bytes it took.</summary>
    Done,

    /// <summary>The input is good so far and ends too early; call again with more bytes.</summary>
    NeedMore,

    /// <summary>The input breaks a rule; the fault beside this answer names the clause.</summary>
    Faulty,
}
