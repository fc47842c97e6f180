"""Which circles of modules are found."""

import unittest

import modules


def found(files):
    return [(parent, circle) for parent, uses in sorted(modules.graphs(files).items()) for circle in modules.circles(uses)]


class Modules(unittest.TestCase):
    def test_a_circle_is_found_through_any_number_of_files(self):
        files = {
            "a.rs": "use crate::b::B;",
            "b/mod.rs": "mod deep;",
            "b/deep.rs": "fn f() { crate::c::g() }",
            "c.rs": "use crate::{exit, a::{X, b::Y}};",
            "exit.rs": "",
            "lib.rs": "use crate::a;",
        }
        self.assertEqual(modules.graphs(files)[()], {"a": {"b"}, "b": {"c"}, "c": {"a", "exit"}, "exit": set()})
        self.assertEqual(found(files), [((), ["a", "b", "c"])])
        files["c.rs"] = "use crate::exit;"
        self.assertEqual(found(files), [])

    def test_a_type_name_belongs_to_one_place_of_a_crate(self):
        files = {
            "a.rs": "pub(crate) struct Row;\nenum Kind {}\nimpl X { type Item = Row; }",
            "b.rs": '#[path = "no_tls.rs"]\nmod tls;\n/// Row\nstruct Line;\nmod tests {\n    struct Row;\n}',
            "tls.rs": "pub struct Identity;",
            "no_tls.rs": "pub struct Identity;",
        }
        self.assertEqual(modules.twice(files), {"Row": ["a.rs", "b.rs"]})

    def test_neighbours_below_a_module_and_super(self):
        files = {
            "run/mod.rs": "",
            "run/link.rs": "use super::{queues, sweep::Sweep};\nuse crate::net;",
            "run/link/deep.rs": "use super::super::sweep::X;",
            "run/queues.rs": "use super::link::Link;",
            "run/sweep.rs": "use super::Parent;",
            "net.rs": "",
        }
        self.assertEqual(modules.graphs(files)[("run",)], {"link": {"queues", "sweep"}, "queues": {"link"}, "sweep": set()})
        self.assertEqual(found(files), [(("run",), ["link", "queues"])])

    def test_comments_and_tests_do_not_count(self):
        files = {
            "a.rs": "use crate::b::B;\n",
            "b.rs": "// crate::a\n/// [`crate::a`]\nfn f() {}\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}\n",
            "b/tests.rs": "use crate::a::A;",
        }
        self.assertEqual(found(files), [])


if __name__ == "__main__":
    unittest.main()
