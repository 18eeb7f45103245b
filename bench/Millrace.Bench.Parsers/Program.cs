// Parser micro-benchmarks: how many request heads one core reads per second, beside Kestrel's own HttpParser on the same bytes in the same run.
//   dotnet run -c Release --project bench/Millrace.Bench.Parsers
// BenchmarkDotNet's own arguments are passed on (--filter, --job, ...); without any, a short run in this process.

using BenchmarkDotNet.Configs;
using BenchmarkDotNet.Jobs;
using BenchmarkDotNet.Running;
using BenchmarkDotNet.Toolchains.InProcess.Emit;
using Millrace.Bench.Parsers;

IConfig config = DefaultConfig.Instance
    .AddJob(Job.ShortRun.WithToolchain(InProcessEmitToolchain.Instance))
    .AddColumn(new RequestsPerSecondColumn(), new BytesPerSecondColumn());
BenchmarkSwitcher.FromAssembly(typeof(HeadBenchmarks).Assembly).Run(args.Length == 0 ? ["--filter", "*"] : args, config);
