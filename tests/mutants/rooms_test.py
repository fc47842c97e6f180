"""Tables, samples, and the places that cargo-mutants names."""

import unittest

import rooms
import run

TEXT = "int a = 1;\nint ä = 2; int b = 3;\n"


def read(_file):
    return TEXT


class Table(unittest.TestCase):
    def entry(self, **changed):
        return {"name": "two is three", "file": "a.h", "find": "= 2", "put": "= 3", **changed}

    def test_a_change_replaces_its_words_and_nothing_else(self):
        [mutant] = rooms.from_table([self.entry()], read)
        self.assertEqual(mutant.apply(TEXT), "int a = 1;\nint ä = 3; int b = 3;\n")
        self.assertEqual(mutant.file, "bpf/a.h")

    def test_words_that_are_not_there_once_are_refused(self):
        for find in ["= 7", "int"]:
            with self.assertRaises(rooms.TableError):
                rooms.from_table([self.entry(find=find)], read)

    def test_a_change_that_changes_nothing_is_refused(self):
        with self.assertRaises(rooms.TableError):
            rooms.from_table([self.entry(put="= 2")], read)

    def test_two_of_one_name_are_refused(self):
        with self.assertRaises(rooms.TableError):
            rooms.from_table([self.entry(), self.entry(find="= 1")], read)

    def test_every_change_of_the_tables_fits_the_sources(self):
        for room in rooms.rooms().values():
            if room.kind == rooms.BPF:
                mutants = rooms.mutants_of(room, "")
                self.assertGreaterEqual(len(mutants), 20, room.name)


class Cargo(unittest.TestCase):
    def test_lines_and_columns_count_characters_from_one(self):
        place = {"start": {"line": 2, "column": 9}, "end": {"line": 2, "column": 10}}
        listing = [{"name": "n", "file": "f.rs", "span": place, "replacement": "4"}]
        [mutant] = rooms.from_cargo(listing, read)
        self.assertEqual(mutant.apply(TEXT), "int a = 1;\nint ä = 4; int b = 3;\n")

    def test_a_place_may_reach_over_lines(self):
        place = {"start": {"line": 1, "column": 5}, "end": {"line": 2, "column": 5}}
        [mutant] = rooms.from_cargo([{"name": "n", "file": "f.rs", "span": place, "replacement": ""}], read)
        self.assertEqual(mutant.apply(TEXT), "int ä = 2; int b = 3;\n")


class Figures(unittest.TestCase):
    TEXT = """
const SHARE: f64 = 0.1;
pub(crate) const SIZES: [u32; 2] = [2 * 10, OTHER];
const MAX_SIZE: usize = 50;
impl Default for Rules {
    fn default() -> Self {
        Self { wait: seconds(3), none: 0.0 }
    }
}
fn other() { 7 }
#[cfg(test)]
const LATER: u32 = 5;
"""

    def test_each_number_of_a_constant_is_less_and_more(self):
        mutants = rooms.from_figures("a.rs", self.TEXT)
        told = [m.name for m in mutants]
        self.assertEqual(told[:2], ["a.rs:2:20: replace 0.1 with 0.07", "a.rs:2:20: replace 0.1 with 0.13"])
        self.assertEqual([m.put for m in mutants], ["0.07", "0.13", "1", "3", "7", "13", "2", "4"])
        self.assertIn("const SHARE: f64 = 0.13;", mutants[1].apply(self.TEXT))
        self.assertIn("[3 * 10, OTHER]", mutants[3].apply(self.TEXT))
        self.assertIn("seconds(4)", mutants[7].apply(self.TEXT))

    def test_a_number_changes_and_stays_one_of_its_kind(self):
        for number, less, more in [("1", "0", "2"), ("10.0", "7.0", "13.0"), ("6_000.0", "4200.0", "7800.0"), ("1e9", "7e8", "1.3e9"), ("5e-5", "3.5e-5", "6.5e-5"), ("30e10", "2.1e11", "3.9e11")]:
            self.assertEqual([rooms.scaled(number, factor) for factor in rooms.FACTORS], [less, more])

    def test_the_model_has_some(self):
        room = rooms.rooms()["constants"]
        self.assertGreater(len(rooms.mutants_of(room, "")), 100)


class Sample(unittest.TestCase):
    MANY = list(range(100))

    def test_a_seed_draws_the_same_again(self):
        self.assertEqual(run.sample(self.MANY, 1, "model", 10), run.sample(self.MANY, 1, "model", 10))
        self.assertNotEqual(run.sample(self.MANY, 1, "model", 10), run.sample(self.MANY, 2, "model", 10))
        self.assertNotEqual(run.sample(self.MANY, 1, "model", 10), run.sample(self.MANY, 1, "http", 10))

    def test_as_many_as_asked_for_each_once_in_their_order(self):
        drawn = run.sample(self.MANY, 7, "model", 10)
        self.assertEqual(len(set(drawn)), 10)
        self.assertEqual(drawn, sorted(drawn))

    def test_all_if_there_are_no_more_or_zero_is_asked_for(self):
        self.assertEqual(run.sample([1, 2], 1, "model", 10), [1, 2])
        self.assertEqual(run.sample(self.MANY, 1, "model", 0), self.MANY)


if __name__ == "__main__":
    unittest.main()
