"""
client - HTTP to a memwald, as its users speak it, and byte by byte.

Client is one keep-alive connection (http.client) and is bound to the worker
that accepted it; a thread has its own. It never repeats a request by itself:
what happened to the first try is the test's matter. Raw is a bare socket for
requests that no library would send.

Errors: Lost means that the connection ended before a whole reply had come, so
the request's outcome is unknown.
"""

import base64
import http.client
import json
import socket
import urllib.parse

WORKER_HEADER = "X-Memwald-Worker"


class Lost(Exception):
    """No whole reply: done, not done, nobody knows."""


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    @property
    def worker(self):
        return int(self.headers[WORKER_HEADER])

    def error(self):
        """The envelope's code and message."""
        error = self.json()["error"]
        return error["code"], error["message"]

    def must(self, status):
        """This reply, if it has that status; else say what it was."""
        if self.status != status:
            raise AssertionError("expected %d, got %d: %s" % (
                status, self.status, self.body[:500]))
        return self


class Client:
    def __init__(self, port, timeout=60):
        self.port = port
        self.timeout = timeout
        self.conn = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.conn is not None:
            self.conn.close()
            self.conn = None

    def request(self, method, path, body=None, headers=None):
        """One request, one Reply. A dict or list is sent as JSON, a generator
        of bytes chunk by chunk."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        if self.conn is None:
            self.conn = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=self.timeout)
        try:
            self.conn.request(method, path, body, headers)
            reply = self.conn.getresponse()
            data = reply.read()
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise Lost("%s %s: %r" % (method, path, e)) from e
        if reply.will_close:
            self.close()
        return Reply(reply.status, reply.headers, data)

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, body, **kw)

    # The rollout routes by name.

    def create(self, store):
        return self.post("/api/v1/rollouts", {"name": store}).must(201).json()

    def append(self, store, rows, flush=False, query=""):
        query = "?flush=true" if flush else query
        return self.post("/api/v1/rollouts/%s/records%s" % (store, query),
                         {"records": rows})

    def append_form(self, store, body, query="", boundary="Q"):
        return self.request(
            "POST", "/api/v1/rollouts/%s/records%s" % (store, query), body,
            headers={"Content-Type":
                     "multipart/form-data; boundary=%s" % boundary})

    def list(self, store, **query):
        path = "/api/v1/rollouts/%s/records" % store
        if query:
            path += "?" + urllib.parse.urlencode(query)
        return self.get(path).must(200).json()["records"]

    def count(self, store, **query):
        return self.get("/api/v1/rollouts/%s/records/count?%s" % (
            store, self.encode(**query))).must(200).json()["count"]

    @staticmethod
    def encode(**query):
        return urllib.parse.urlencode(query)

    def record(self, store, row_id):
        return self.get("/api/v1/rollouts/%s/records/%s" % (
            store, quote(row_id))).must(200).json()["record"]

    def blob(self, store, row_id):
        return self.get("/api/v1/rollouts/%s/records/%s/blob" % (
            store, quote(row_id)))

    def merge(self, store):
        """One fold on demand: how many generations went into the base."""
        return self.post("/api/v1/internal/merge-wal/%s" % store) \
            .must(200).json()["reclaimed"]

    def merge_all(self, store):
        """Folds until nothing is pending."""
        total = 0
        for _ in range(100):
            n = self.merge(store)
            if n == 0:
                return total
            total += n
        raise AssertionError("%s: still pending after 100 folds" % store)

    def metrics(self):
        """{"name{labels}": value} of /metrics."""
        values = {}
        for line in self.get("/metrics").must(200).body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def metric(self, name):
        """The sum of one over its labels."""
        found = [v for k, v in self.metrics().items()
                 if k.split("{")[0] == name]
        if not found:
            raise KeyError(name)
        return sum(found)


class Raw:
    """A bare socket; recv_reply reads one reply that has a Content-Length."""

    def __init__(self, port, timeout=10):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        self.buf = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        data = self.sock.recv(65536)
        if not data:
            raise Lost("closed after %r" % self.buf[:200])
        self.buf += data

    def recv_reply(self):
        while b"\r\n\r\n" not in self.buf:
            self._more()
        head, rest = self.buf.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = http.client.HTTPMessage()
        for line in lines[1:]:
            name, value = line.split(":", 1)
            headers[name] = value.strip()
        status = int(lines[0].split()[1])
        size = int(headers.get("Content-Length", "0"))
        self.buf = rest
        while len(self.buf) < size:
            self._more()
        body, self.buf = self.buf[:size], self.buf[size:]
        return Reply(status, headers, body)

    def closed(self):
        """True if the peer closes, without another byte before."""
        if self.buf:
            return False
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


def quote(segment):
    return urllib.parse.quote(segment, safe="")


def form(rows, parts, boundary=b"Q"):
    """Body of a multipart append: parts are (name, bytes), after the rows."""
    parts = [("metadata", json.dumps({"records": rows}).encode()), *parts]
    return b"".join(
        b"--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n" % (
            boundary, str(name).encode(), data)
        for name, data in parts) + b"--%s--\r\n" % boundary


def b64(data):
    return base64.b64encode(data).decode()
