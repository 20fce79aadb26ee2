package marks

import "testing"

func TestCounter(t *testing.T) {
	t.Parallel()
	var c Counter
	if got := c.Since(7); got != 7 {
		t.Errorf("grew by %d before any mark, want 7", got)
	}
	c.Roll(10)
	c.Roll(15)
	if got := c.Since(18); got != 8 {
		t.Errorf("grew by %d since the mark at 10, want 8", got)
	}
	c.Skip(5)
	if got := c.Since(18); got != 3 {
		t.Errorf("grew by %d without 5 units that were skipped, want 3", got)
	}
	c.Roll(18)
	if got := c.Since(18); got != 0 {
		t.Errorf("grew by %d since a mark at 15, of which 5 are skipped, want 0", got)
	}
}

func TestPeaks(t *testing.T) {
	t.Parallel()
	var p Peaks
	p.Note(9)
	p.Note(4)
	for i := range Long + 2 {
		lately, worst := uint64(0), uint64(0)
		if i < 2 {
			lately = 9
		}
		if i <= Long {
			worst = 9
		}
		if p.Lately() != lately || p.Worst() != worst {
			t.Errorf("%d marks after a peak of 9: lately %d, worst %d; want %d and %d", i, p.Lately(), p.Worst(), lately, worst)
		}
		p.Roll()
	}
}
