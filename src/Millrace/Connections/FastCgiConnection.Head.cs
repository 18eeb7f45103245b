// How a FastCGI request begins: BEGIN_REQUEST and PARAMS become the head of a request (FastCGI 1.0 §5.1, §5.2).

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel>
{
    private ParamsAssembly _params;

    // ---- BEGIN_REQUEST, §5.1 ----

    private void RefuseRole(LoopDriver driver, ushort id)
    {
        Loop.Counters.Refused(Refusal.UnknownRole);
        SendEndRequest(driver, id, ProtocolStatus.UnknownRole);
        if (_sequence.ClosesBehind)
        {
            NoteInput();
        }
        else if (!_sequence.Begin.KeepConnection)
        {
            CloseWhenSent();
        }
    }

    private void BeginParams()
    {
        _headSinceMs = _recordSinceMs;
        _recordSinceMs = _idleUntilMs = 0;
        _params.Begin();
    }

    // ---- PARAMS, §5.2 ----

    private void TakeParams(LoopDriver driver, in RecordPart part, byte[] buffer, int at)
    {
        if (_params.Length + part.Length > Options.MaxHeadBytes + Options.RoutedBytes)
        {
            Refuse(driver, CgiFault.ParametersTooLarge);
            return;
        }

        _params.Add(buffer, at, part.Length);
    }

    private void FinishHead(LoopDriver driver, byte[] buffer)
    {
        if (!ReferenceEquals(buffer, driver.Input))
        {
            _params.Keep(buffer);     // bytes that had been held: their buffer does not stay with a request that goes on
        }

        int length = _params.Length;
        byte[] source = _params.Source(buffer, out int origin);
        CgiHead cgi = driver.Cgi;
        CgiFault fault = cgi.Read(source.AsSpan(origin, length), Options.MaxParameters + Options.RoutedParameters);
        Slice target = cgi.RequestUri;
        if (fault == CgiFault.None && target.IsEmpty)
        {
            target = _params.AddTarget(cgi, buffer);
            source = _params.Source(buffer, out origin);
            fault = target.Length > cgi.TargetLengthMax ? CgiFault.TargetTooLong : cgi.JudgePath(target.In(source), source.AsSpan(0, length));
        }

        if (fault != CgiFault.None)
        {
            Refuse(driver, fault);
            return;
        }

        Exchange exchange = driver.RentExchange();
        exchange.Head.Fill(cgi, source, origin, length, target);
        _frames.Begin(_sequence.Id);
        exchange.Begin(this, driver.Output, _params.Detach(), Loop.NowMs);
        exchange.Body.Begin(cgi.ContentLength, Options.MaxRequestBodySize, BodyState.Open);
        Exchange = exchange;
    }
}
