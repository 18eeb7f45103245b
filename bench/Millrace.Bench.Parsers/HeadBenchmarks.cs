// Reading all heads of a buffer, one operation per head. Kestrel's parser is given a handler that does nothing: it neither looks names up nor
// judges Host, Content-Length or Connection, which Http1Head does while it reads.

using System.Buffers;
using System.Runtime.CompilerServices;
using BenchmarkDotNet.Attributes;
using Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http;
using Millrace.Protocols;
using Millrace.Protocols.Http1;

namespace Millrace.Bench.Parsers;

/// <summary>Request heads per second on one core.</summary>
[MemoryDiagnoser]
public class HeadBenchmarks
{
    private readonly Http1Head _head = new();
    private readonly HttpParser<SilentHandler> _parser = new(showErrorDetails: false);

    /// <summary>The bytes to read.</summary>
    [ParamsSource(nameof(Samples))]
    public RequestSample Sample { get; set; } = RequestSample.Plaintext16;

    /// <summary>All samples.</summary>
    public static IEnumerable<RequestSample> Samples => [RequestSample.Plaintext16, RequestSample.Browser, RequestSample.Mixed16];

    /// <summary>Millrace: split, look up, judge.</summary>
    [Benchmark(Description = "Millrace Http1Head")]
    public int Millrace()
    {
        ReadOnlySpan<byte> rest = Sample.Buffer;
        var limits = new Http1Limits();
        int count = 0;
        while (!rest.IsEmpty)
        {
            if (_head.Read(rest, limits, out int consumed) != ReadResult.Done)
            {
                throw new InvalidOperationException(_head.Fault.ToString());
            }

            rest = rest[consumed..];
            count += _head.Headers.Length;
        }

        return count;
    }

    /// <summary>Kestrel: split only.</summary>
    [Benchmark(Description = "Kestrel HttpParser", Baseline = true)]
    public int Kestrel()
    {
        var reader = new SequenceReader<byte>(new ReadOnlySequence<byte>(Sample.Buffer));
        var handler = new SilentHandler { Count = new StrongBox<int>() };
        while (!reader.End)
        {
            if (!_parser.ParseRequestLine(handler, ref reader) || !_parser.ParseHeaders(handler, ref reader))
            {
                throw new InvalidOperationException("Kestrel's parser refused the sample.");
            }
        }

        return handler.Count.Value;
    }

    private struct SilentHandler : IHttpRequestLineHandler, IHttpHeadersHandler
    {
        internal StrongBox<int> Count;

        public readonly void OnStartLine(HttpVersionAndMethod versionAndMethod, TargetOffsetPathLength targetPath, Span<byte> startLine)
        {
        }

        public readonly void OnHeader(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value) => Count.Value++;

        public readonly void OnHeadersComplete(bool endStream)
        {
        }

        public readonly void OnStaticIndexedHeader(int index)
        {
        }

        public readonly void OnStaticIndexedHeader(int index, ReadOnlySpan<byte> value)
        {
        }
    }
}
