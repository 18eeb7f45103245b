namespace Millrace.Interop;
