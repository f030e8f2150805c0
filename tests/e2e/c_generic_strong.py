"""seal_on_add: rows are seen by every instance as soon as they are acknowledged
(contract 4.2), though no append makes a generation of its own."""

import unittest

import memwal
from generic import Generic, ID, column, row, store_dir
from harness import Server

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
SCHEMA = {"columns": [ID, ["n", column("int32")]]}


class Strong(unittest.TestCase):
    def test_other_instances_see_it_at_once(self):
        with Server(workers=1, args=QUIET, instance_id="one") as one, \
                Server(workers=2, args=QUIET, instance_id="two",
                       data_dir=one.data_dir) as two, \
                one.client() as c:
            mine = Generic(c, "st")
            mine.create(SCHEMA, seal_on_add=True)
            theirs = [Generic(x, "st")
                      for x in two.clients_by_worker().values()]
            want = []
            for k in range(8):
                # Both write: theirs must not hide ours, nor the other way.
                for writer, name in ((mine, "m"), (theirs[k % 2], "t")):
                    r = row("%s%02d" % (name, k), n=k)
                    writer.append([r]).must(201)
                    want.append(r)
                    want.sort(key=lambda x: x["id"])
                    for g in [mine] + theirs:
                        self.assertEqual(g.get(r["id"]).must(200).json(), r)
                        self.assertEqual(g.list(), want)
                        self.assertEqual(
                            g.get_rows([r["id"]]).json(), {"rows": [r]})
                if k == 3:
                    mine.flush()
                if k == 5:
                    theirs[0].merge_all()
            for shard in memwal.shards(store_dir(one, "st")).values():
                self.assertLessEqual(len(shard.generations), 1)

    def test_it_survives_a_restart(self):
        with Server(workers=1, args=QUIET, instance_id="one") as one, \
                Server(workers=1, args=QUIET, instance_id="two",
                       data_dir=one.data_dir) as two:
            with one.client() as c:
                Generic(c, "st").create(SCHEMA, seal_on_add=True)
            one.restart()
            with one.client() as c, two.client() as c2:
                Generic(c, "st").append([row("a", n=1)]).must(201)
                self.assertEqual(Generic(c2, "st").list(), [row("a", n=1)])
                Generic(c, "st").append([row("b", n=1)]).must(201)
                self.assertEqual(len(Generic(c2, "st").list()), 2)


if __name__ == "__main__":
    unittest.main()
