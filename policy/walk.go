package policy

import "slices"

// Bounds on how much of a forwarding header is read. Real chains of proxies are shorter,
// and a longer header must not make a request more expensive.
const (
	maxElements = 32
	maxScan     = 4 << 10 // bytes
)

// walk yields the elements of all instances of a list header from the right.
//
// Quotes are matched from the right too. That is the end that the trusted proxies wrote, so
// a stray quote that a client has put before it cannot swallow their elements.
type walk struct {
	values   [][]byte // instances that are left; the last one up to end
	end      int
	quoted   bool // commas within quotes do not separate
	elements int
	scanned  int
}

func newWalk(values [][]byte, quoted bool) walk {
	w := walk{values: values, quoted: quoted}
	w.rewind()
	return w
}

// atEnd reports whether every element has been read.
func (w *walk) atEnd() bool { return len(w.values) == 0 }

// rewind moves to the right end of the last instance.
func (w *walk) rewind() {
	if n := len(w.values); n > 0 {
		w.end = len(w.values[n-1])
	}
}

// next returns the next element to the left, with the space around it. ok is false if there
// is none or a bound is reached. An empty instance is one empty element.
func (w *walk) next() (element []byte, ok bool) {
	if len(w.values) == 0 || w.elements == maxElements {
		return nil, false
	}
	w.elements++
	value := w.values[len(w.values)-1][:w.end]
	inQuotes := false
	for i, c := range slices.Backward(value) {
		if w.scanned++; w.scanned > maxScan {
			return nil, false
		}
		switch {
		case c == '"' && w.quoted && !(inQuotes && i > 0 && value[i-1] == '\\'):
			inQuotes = !inQuotes
		case c == ',' && !inQuotes:
			w.end = i
			return value[i+1:], true
		}
	}
	w.values = w.values[:len(w.values)-1]
	w.rewind()
	return value, true
}
