// Command mutants is "make mutants": it shows that the tests have teeth. Each file
// testdata/mutants/<area>/<name>.diff is one small mistake, and names a test that must
// fail with it. The mistakes are made one by one in a copy of the work tree, never in
// the work tree itself. ONLY (part or pattern of area/name) and AREA choose some.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	folder  = "testdata/mutants"
	scratch = ".tmp/mutants" // always the same: what was compiled there before is reused
)

func main() {
	if err := run(os.Getenv("AREA"), os.Getenv("ONLY"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run runs in the root of the work tree.
func run(area, only string, w io.Writer) error {
	all, err := readAll(folder)
	if err != nil {
		return err
	}
	chosen, err := choose(all, area, only)
	if err != nil {
		return err
	}
	if err := mirror(scratch); err != nil {
		return err
	}
	c, err := newCopied(scratch)
	if err != nil {
		return err
	}
	if err := c.unchanged(chosen, w); err != nil {
		return err
	}
	return c.tryAll(chosen, w)
}

// choose returns the mutants of an area whose name matches.
func choose(all []mutant, area, only string) (chosen []mutant, err error) {
	var areas []string
	for _, m := range all {
		in := path.Dir(m.name)
		areas = append(areas, in)
		if area != "" && area != in {
			continue
		}
		match, err := path.Match(only, m.name)
		if err != nil {
			return nil, fmt.Errorf("ONLY=%s: %w", only, err)
		}
		if match || strings.Contains(m.name, only) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("nothing matches AREA=%q ONLY=%q; areas: %s", area, only, strings.Join(slices.Compact(areas), " "))
	}
	return chosen, nil
}

// unchanged runs the tests of all mutants without a mutant: they must be there and pass,
// else that they fail says nothing.
func (c copied) unchanged(chosen []mutant, w io.Writer) error {
	var places []string
	tests := map[string][]mutant{}
	for _, m := range chosen {
		place := strings.Join(append([]string{m.module, m.pkg}, m.flags...), " ")
		if tests[place] == nil {
			places = append(places, place)
		}
		tests[place] = append(tests[place], m)
	}
	slices.Sort(places)
	var errs []error
	for _, place := range places {
		begun := time.Now()
		err := c.pass(tests[place])
		fmt.Fprintf(w, "%-16s %5.1f s  %s\n", word(err == nil, "passes", "FAILS"), time.Since(begun).Seconds(), strings.TrimPrefix(place, ". "))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tryAll makes the mistakes one by one.
func (c copied) tryAll(chosen []mutant, w io.Writer) error {
	begun, count := time.Now(), map[verdict]int{}
	for _, m := range chosen {
		begun := time.Now()
		v, said, err := c.try(m)
		if err != nil {
			return err
		}
		count[v]++
		fmt.Fprintf(w, "%-16s %5.1f s  %s: %s\n", v, time.Since(begun).Seconds(), m.name, m.breaks)
		if v != caught && v != hung {
			fmt.Fprint(w, said)
		}
	}
	good := count[caught] + count[hung]
	fmt.Fprintf(w, "%d of %d caught, %d of them by a hang, in %.0f s\n", good, len(chosen), count[hung], time.Since(begun).Seconds())
	if good == len(chosen) {
		return nil
	}
	var bad []string
	for v, n := range count {
		if v != caught && v != hung {
			bad = append(bad, fmt.Sprintf("%d %s", n, v))
		}
	}
	slices.Sort(bad)
	return fmt.Errorf("%s: the diffs are in %s", strings.Join(bad, ", "), folder)
}

func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
