namespace Millrace.Sessions.Observe;

/// <summary>What a store in memory says of itself.</summary>
internal interface ISessionStoreFigures
{
    int Live { get; }

    long Bytes { get; }

    long BudgetBytes { get; }
}
