"""Payloads come back byte by byte from every place (field fault B.7)."""

import random
import unittest

from client import b64
from harness import Server
from rows import row


class Blob(unittest.TestCase):
    def check(self, c, blobs):
        for row_id, data in blobs.items():
            reply = c.blob("st", row_id)
            if data is None:
                self.assertEqual(reply.status, 404, row_id)
                self.assertEqual(reply.error()[0], "NOT_FOUND")
                continue
            reply.must(200)
            self.assertEqual(reply.headers["Content-Type"],
                             "application/octet-stream")
            self.assertEqual(reply.headers["Content-Length"],
                             str(len(data)))
            self.assertTrue(reply.body == data, row_id)
        c.blob("st", "absent").must(404)

    def test_from_tail_generation_base_and_after_a_restart(self):
        blobs = {"all": bytes(range(256)) * 4096, "one": b"\0", "empty": b"",
                 "none": None, "random": random.Random(1).randbytes(300001)}
        rows = [row(i) if d is None else row(i, binary_payload=b64(d))
                for i, d in blobs.items()]
        with Server(instance_id="one") as s, \
                Server(instance_id="two", workers=1,
                       data_dir=s.data_dir) as two:
            with s.client() as c, two.client() as other:
                c.create("st")
                c.append("st", rows).must(201)
                self.check(c, blobs)
                c.append("st", [row("more")], flush=True).must(201)
                self.check(c, blobs)
                self.check(other, blobs)
                c.merge_all("st")
                self.check(c, blobs)
                self.check(other, blobs)
            s.restart()
            with s.client() as c:
                self.check(c, blobs)
                for r in c.list("st"):
                    self.assertNotIn("binary_payload", r)


if __name__ == "__main__":
    unittest.main()
