// The end of a script that has handed over to a file (X-Accel-Redirect, X-Sendfile): it is not given up for that. Its visitor has the file meanwhile.

using System.Net.Sockets;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal sealed partial class ProgramRequest
{
    private TaskCompletionSource? _visitorGoesOn;       // null: nobody would listen

    // Until the process ends the request, or ReadTimeout or the time of the call does. The context is not touched any more when the body is the process's.
    private async Task LetEndAsync(PooledConnection connection)
    {
        BeginSilence(connection);
        try
        {
            Task ending = DropRestAsync(connection);
            if (_upload is not null)
            {
                _ = await Task.WhenAny(_upload, ending).ConfigureAwait(false);
            }
            if (!ending.IsCompleted)
            {
                _ = _turn!.TrySetResult();
                _ = _visitorGoesOn?.TrySetResult();
            }
            await ending.ConfigureAwait(false);
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException or OperationCanceledException or ConnectorException)
        {
            // It is settled as one that has been given up.
        }
        finally
        {
            connection.Silence!.End();
        }
    }

    private async Task DropRestAsync(PooledConnection connection)
    {
        while (true)
        {
            while (!_end.HasCome && connection.TryRead(out RecordPart part, out ReadOnlyMemory<byte> content))
            {
                if (part.Type == RecordType.EndRequest && part.RequestId == connection.RequestId)
                {
                    _end.Take(part, content.Span);
                }
            }
            if (_end.HasCome || !connection.Take(await connection.ReceivePieceAsync(StopToken).ConfigureAwait(false)))
            {
                return;
            }
            NoteLife();
        }
    }

    // The process has its time, and its pool says what becomes of it; the visitor has what he needs of it before.
    private async Task AnswerOrHandOverAsync(Func<Func<IProgramConnections, CancellationToken, Task<bool>>, Task> runAtFree)
    {
        _visitorGoesOn = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Task answering = runAtFree(RunAsync);
        if (await Task.WhenAny(answering, _visitorGoesOn.Task).ConfigureAwait(false) == answering)
        {
            await answering.ConfigureAwait(false);
            return;
        }
        _ = answering.ContinueWith(static its => _ = its.Exception, CancellationToken.None, TaskContinuationOptions.OnlyOnFaulted | TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
    }
}
