// The command `millrace`. Only the way in; each verb has its file in Verbs/.

using Millrace.Command;
using Millrace.Command.Running;
using Millrace.Command.Terminals;

Posix.HeedChildren();
using var console = CommandConsole.OfProcess();
return await MillraceCommand.InvokeAsync(args, console);
