-- wrk: one request on each connection.
wrk.headers["Connection"] = "close"
