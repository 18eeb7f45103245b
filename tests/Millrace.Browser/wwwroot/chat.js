// Connects to the hub over the transport that the address names, calls every kind of method and shows what came back.
// The connection stays open until hub.stop().
const transports = {
    WebSockets: signalR.HttpTransportType.WebSockets,
    ServerSentEvents: signalR.HttpTransportType.ServerSentEvents,
    LongPolling: signalR.HttpTransportType.LongPolling,
};

let hub;

async function talk(parameters) {
    const transport = parameters.get('transport');
    const connection = hub = new signalR.HubConnectionBuilder()
        .withUrl('/chat-hub?name=' + parameters.get('name'), { transport: transports[transport] })
        .configureLogging(signalR.LogLevel.Warning)
        .build();
    const said = new Promise(resolve => connection.on('said', resolve));
    await connection.start();
    const agreed = await connection.invoke('Transport');
    const upper = await connection.invoke('Upper', 'grain');
    await connection.send('Say', 'flour');
    const heard = await said;
    const counted = await new Promise((resolve, reject) => {
        const items = [];
        connection.stream('Count', 5).subscribe({ next: item => items.push(item), complete: () => resolve(items), error: reject });
    });
    const long = await connection.invoke('Upper', 'x'.repeat(20000));
    return `${agreed} ${upper} ${heard} ${counted.join(',')} ${long.length}`;
}

talk(new URLSearchParams(location.search)).then(
    result => { document.getElementById('state').textContent = result; },
    error => { document.getElementById('state').textContent = `failed: ${error}`; });
