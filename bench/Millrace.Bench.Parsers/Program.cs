// Parser micro-benchmarks: how many request heads one core reads per second, beside Kestrel's own HttpParser on the same bytes in the same run.
//   dotnet run -c Release --project bench/Millrace.Bench.Parsers
// BenchmarkDotNet's own arguments are passed on (--filter '*plaintext*', ...); without any, a short run of all in this process.
// All in one process share one compiled reader, shaped by what ran first: for one figure run one sample.

using BenchmarkDotNet.Configs;
using BenchmarkDotNet.Jobs;
using BenchmarkDotNet.Running;
using BenchmarkDotNet.Toolchains.InProcess.Emit;
using Millrace.Bench.Parsers;

IConfig config = DefaultConfig.Instance
    .AddJob(Job.ShortRun.WithToolchain(InProcessEmitToolchain.Instance))
    .AddColumn(new RequestsPerSecondColumn(), new BytesPerSecondColumn());
BenchmarkSwitcher.FromAssembly(typeof(HeadBenchmarks).Assembly).Run(args.Length == 0 ? ["--filter", "*"] : args, config);
