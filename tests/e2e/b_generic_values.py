"""What a generic row may hold, and what is refused with its place (contract
3.3.3, 3.3.2; field faults H.1, H.3, H.4, H.6). A bad row refuses the batch."""

import json
import unittest

from generic import Generic, ID, column, row
from harness import Server

JSON = {"Content-Type": "application/json"}
SCHEMA = {"columns": [
    ID, ["need", column("int32", nullable=False)],
    ["s", column("string")], ["i", column("int32")], ["l", column("int64")],
    ["f", column("float32")], ["d", column("float64")],
    ["b", column("bool")], ["t", column("timestamp")],
    ["bin", column("binary")], ["v", column("vector", dim=4)],
    ["li", column("list", item=column("int32"))],
    ["ls", column("list", item=column("string"))],
    ["lb", column("list", item=column("binary"))],
    ["lt", column("list", item=column("timestamp"))],
    ["lf", column("list", item=column("float32"))],
]}

# Column, the value as JSON, words of the message.
BAD = [
    ("s", "1", "string"), ("s", "[]", "string"), ("s", "{}", "string"),
    ("s", "true", "string"), ("s", '"\\ud800"', ""),
    ("i", "1.0", "integer"), ("i", "1e3", "integer"), ("i", "2.5", "integer"),
    ("i", '"1"', "integer"), ("i", "2147483648", "32 bits"),
    ("i", "-2147483649", "32 bits"), ("i", "true", "integer"),
    ("l", "9223372036854775808", "64 bits"),
    ("l", "-9223372036854775809", "64 bits"), ("l", "1.0", "integer"),
    ("l", "1e18", "integer"),
    ("f", "1e39", "float32"), ("f", "-1e400", "float32"),
    ("f", "NaN", ""), ("f", "Infinity", ""), ("f", '"1"', "number"),
    ("d", "1e400", "float64"), ("d", "-Infinity", ""), ("d", "01", ""),
    ("b", "1", "true or false"), ("b", '"true"', "true or false"),
    ("t", "1.5", "integer"), ("t", '"yesterday"', "RFC 3339"),
    ("t", '"2026-01-01"', "RFC 3339"), ("t", "9223372036854775808", ""),
    ("t", "true", "time"), ("t", '"9999-12-31T23:59:60Z"', "RFC 3339"),
    ("t", '"0000-01-01T00:00:00+23:59"', "RFC 3339"),
    ("lt", '["9999-12-31T23:59:00-00:01"]', "RFC 3339"),
    ("bin", '"A"', "base64"), ("bin", '"AA="', "base64"),
    ("bin", '"AB=="', "base64"), ("bin", "[256]", "byte"),
    ("bin", "[-1]", "byte"), ("bin", "[1.0]", "byte"),
    ("bin", "[null]", "byte"), ("bin", '["a"]', "byte"),
    ("bin", "5", "base64"), ("bin", "[1,2", ""),
    ("v", "[]", "expected 4"), ("v", "[1,2,3]", "expected 4"),
    ("v", "[1,2,3,4,5]", "too many"), ("v", "[1,2,null,4]", "number"),
    ("v", '[1,2,"3",4]', "number"), ("v", "[1,2,3,1e39]", "float32"),
    ("v", "1", "array"), ("v", '"AAAA"', "array"), ("v", "[[1,2,3,4]]", ""),
    ("li", "[1,null]", "null"), ("li", "[1,2.5]", "integer"),
    ("li", "1", "array"), ("li", "[[1]]", "integer"),
    ("ls", '["a",1]', "string"), ("ls", "[null]", "null"),
    ("lb", '["AA==",null]', "null"), ("lb", "[[1,256]]", "byte"),
    ("lt", '["x"]', "RFC 3339"), ("lf", "[1e39]", "float32"),
    ("need", "null", "null"), ("id", "null", "null"), ("id", '""', "empty"),
    ("id", "1", "string"), ("id", '"a\\u0000b"', "U+0000"),
    ("id", json.dumps("x" * 300000), "key"),
    ("none", "1", "no such column"), ("_seq", "1", "no such column"),
    ("I", "1", "no such column"), ("id\\u0000x", "1", "U+0000"),
]


class Values(unittest.TestCase):
    def test_bad_rows_refuse_the_batch(self):
        with Server(workers=1) as s, s.client() as c:
            g = Generic(c, "st")
            g.create(SCHEMA)
            g.append([row("kept", need=1)]).must(201)
            path = g.path + "/rows"
            for name, value, words in BAD:
                given = {"id": '"bad"', "need": "1", name: value}
                body = '{"rows":[{"id":"good","need":1},{%s}]}' % ",".join(
                    '"%s":%s' % pair for pair in given.items())
                reply = c.post(path, body.encode(), headers=JSON)
                self.assertEqual(reply.status, 400, (name, value, reply.body))
                code, message = reply.error()
                self.assertEqual(code, "INVALID_REQUEST")
                self.assertIn(words, message)
                if "\\" not in name and not value.endswith(",2"):
                    self.assertTrue(message.startswith("rows[1].%s" % name),
                                    message)
            for body, words in (
                    ('{"rows":[{"need":1}]}', "rows[0].id"),
                    ('{"rows":[{"id":"a"}]}', "rows[0].need"),
                    ('{"rows":[{"id":"a","need":1,"need":1}]}', "twice"),
                    ('{"rows":[{"id":"a","need":1}', ""),
                    ('{"a":' * 100000, ""),
                    ('{"rows":[{"id":"a","need":1,"ls":%s' % ("[" * 100000),
                     ""), ('{"rows":[{"id":"\\', "")):
                reply = c.post(path, body.encode(), headers=JSON).must(400)
                self.assertIn(words, reply.error()[1])
            # Its first byte says that it is no object.
            c.post(path, b"[" * 100000, headers=JSON).must(422)
            self.assertEqual(g.list(), [row("kept", need=1)])
            g.flush()
            self.assertEqual(g.list(), [row("kept", need=1)])

    def test_good_values(self):
        """As written on the wire, and how they come back."""
        good = [
            ("s", '"\\u0000a\\ud83d\\ude00\\/"', '"\\u0000a\U0001f600/"'),
            ("i", "-0", "0"), ("l", "9007199254740993", "9007199254740993"),
            ("l", "-9223372036854775808", "-9223372036854775808"),
            ("f", "0.1", "0.10000000149011612"), ("f", "16777217", "16777216"),
            ("f", "1e-60", "0"), ("f", "-3.4028235e38",
                                  "-3.4028234663852886e+38"),
            ("d", "0.1", "0.1"), ("d", "1E3", "1000"), ("d", "5e-324", "5e-324"),
            ("t", "12", "12"), ("t", '"1970-01-01T00:00:00.000012Z"', "12"),
            ("t", '"1970-01-01T02:00:00+02:00"', "0"), ("t", "-1", "-1"),
            ("bin", "[0,255]", '"AP8="'), ("bin", "[]", '""'),
            ("bin", '""', '""'), ("bin", '"\\u0041AAA"', '"AAAA"'),
            ("v", "[1,-2.5,1e-3,0]", "[1,-2.5,0.0010000000474974513,0]"),
            ("lb", '["AA==",[1,2],[]]', '["AA==","AQI=",""]'),
            ("lt", '[1,"1970-01-01T00:00:00Z"]', "[1,0]"),
            ("li", "[]", "[]"), ("need", "7", "7"),
        ]
        with Server(workers=1) as s, s.client() as c:
            g = Generic(c, "st")
            g.create(SCHEMA)
            for k, (name, value, want) in enumerate(good):
                row_id = "r%02d" % k
                body = '{"rows":[{"%s": %s,"id":"%s"%s}]}' % (
                    name, value, row_id,
                    "" if name == "need" else ',"need":1')
                c.post(g.path + "/rows", body.encode(), headers=JSON) \
                    .must(201)
            for tier in (lambda: None, g.flush, g.merge_all):
                tier()
                for k, (name, value, want) in enumerate(good):
                    got = g.get("r%02d" % k, name).must(200).body.decode()
                    self.assertEqual(got, '{"id":"r%02d","%s":%s}' % (
                        k, name, want), value)

    def test_bodies_in_pieces(self):
        """Longer than what is parsed at once; the last row is bad, or not."""
        rows = [row("r%05d" % k, need=k, s="x" * 300, v=[k, 0.5, -1, 1e-3],
                    bin=[1, 2, 3, k % 256], ls=["a", ""]) for k in range(2000)]
        with Server(workers=1) as s, s.client() as c:
            g = Generic(c, "st")
            g.create(SCHEMA)
            for bad, words in ((row("x"), "rows[2000].need"),
                               (row("y", need=1, v=[1, 2, 3]), "expected 4"),
                               (row("z", need=1, bin=[1, 300]), "byte")):
                reply = g.append(rows + [bad]).must(400)
                self.assertIn(words, reply.error()[1])
            self.assertEqual(g.list(), [])
            g.append(rows).must(201)
            got = g.list()
            self.assertEqual([r["id"] for r in got], [r["id"] for r in rows])
            self.assertEqual(got[1999]["v"][:3], [1999, 0.5, -1])
            self.assertTrue(all(r["ls"] == ["a", ""] for r in got))


if __name__ == "__main__":
    unittest.main()
