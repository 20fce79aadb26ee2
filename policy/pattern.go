package policy

import (
	"bytes"
	"strings"
)

// pattern is a compiled glob: * stands for any run of bytes, everything else
// for itself, and the whole text must match.
//
// As a pattern has no alternatives, a piece between stars can always be matched at its
// leftmost place: if the rest matches after a later one, it matches after that one too.
// So there is no backtracking, and a hostile path cannot make a match slow.
type pattern struct {
	head, tail string   // before the first star and after the last
	middle     [][]byte // between the stars, none of them empty
	literal    bool     // without a star: head is the whole pattern
}

func compilePattern(glob string) pattern {
	pieces := strings.Split(glob, "*")
	if len(pieces) == 1 {
		return pattern{head: glob, literal: true}
	}
	last := len(pieces) - 1
	p := pattern{head: pieces[0], tail: pieces[last]}
	for _, m := range pieces[1:last] {
		if m != "" {
			p.middle = append(p.middle, []byte(m))
		}
	}
	return p
}

func (p *pattern) match(text []byte) bool {
	if p.literal {
		return string(text) == p.head
	}
	rest := len(text) - len(p.tail)
	if rest < len(p.head) || string(text[:len(p.head)]) != p.head || string(text[rest:]) != p.tail {
		return false
	}
	text = text[len(p.head):rest]
	for _, m := range p.middle {
		i := bytes.Index(text, m)
		if i < 0 {
			return false
		}
		text = text[i+len(m):]
	}
	return true
}
