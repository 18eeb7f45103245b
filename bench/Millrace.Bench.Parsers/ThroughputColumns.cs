// The mean time of an operation said as requests and bytes per second of one core.

using System.Globalization;
using BenchmarkDotNet.Columns;
using BenchmarkDotNet.Parameters;
using BenchmarkDotNet.Reports;
using BenchmarkDotNet.Running;

namespace Millrace.Bench.Parsers;

/// <summary>Millions of requests per second.</summary>
public sealed class RequestsPerSecondColumn() : ThroughputColumn("Mreq/s", "Requests per second and core, in millions", s => s.Depth / 1e6);

/// <summary>Gigabytes per second.</summary>
public sealed class BytesPerSecondColumn() : ThroughputColumn("GB/s", "Bytes per second and core, in billions", s => s.Buffer.Length / 1e9);

/// <summary>An amount per operation, turned into an amount per second.</summary>
public abstract class ThroughputColumn(string name, string legend, Func<RequestSample, double> amount) : IColumn
{
    /// <inheritdoc/>
    public string Id => name;

    /// <inheritdoc/>
    public string ColumnName => name;

    /// <inheritdoc/>
    public bool AlwaysShow => true;

    /// <inheritdoc/>
    public ColumnCategory Category => ColumnCategory.Custom;

    /// <inheritdoc/>
    public int PriorityInCategory => 0;

    /// <inheritdoc/>
    public bool IsNumeric => true;

    /// <inheritdoc/>
    public UnitType UnitType => UnitType.Dimensionless;

    /// <inheritdoc/>
    public string Legend => legend;

    /// <inheritdoc/>
    public bool IsAvailable(Summary summary) => true;

    /// <inheritdoc/>
    public bool IsDefault(Summary summary, BenchmarkCase benchmarkCase) => false;

    /// <inheritdoc/>
    public string GetValue(Summary summary, BenchmarkCase benchmarkCase) => GetValue(summary, benchmarkCase, SummaryStyle.Default);

    /// <inheritdoc/>
    public string GetValue(Summary summary, BenchmarkCase benchmarkCase, SummaryStyle style)
    {
        double? mean = summary[benchmarkCase]?.ResultStatistics?.Mean;
        ParameterInstance? sample = benchmarkCase.Parameters.Items.FirstOrDefault(p => p.Value is RequestSample);
        return mean is null || sample is null ? "-" : (amount((RequestSample)sample.Value) * 1e9 / mean.Value).ToString("0.00", CultureInfo.InvariantCulture);
    }
}
