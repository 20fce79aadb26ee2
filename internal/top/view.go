package top

import (
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/internal/screen"
)

// Control characters.
const (
	ctrlC screen.Key = 3
	ctrlL screen.Key = 12
)

// Action is what a key asks of the owner of the terminal and the network.
type Action int

// Actions.
const (
	None    Action = iota
	Refresh        // ask the node now
	Quit
)

// View is the content of a screen. The zero value shows that nothing has come yet. It is not safe for
// concurrent use.
type View struct {
	Admin string // that is asked

	Order  string // of clients; "": ByRate
	Rule   string // whose clients are shown; "": all
	Paused bool

	doc     *Document
	at      time.Time // when doc came
	problem string    // why nothing has come since; "": nothing is wrong
	rules   []string  // the possible values of Rule
	history history   // of totals

	help   bool
	marked *identity // the client with the mark; nil: none
	top    int       // the first visible row
	page   int       // rows last shown
}

// identity names a client across documents, in which its position changes.
type identity struct{ rule, key string }

func (v *View) order() string {
	if v.Order == "" {
		return ByRate
	}
	return v.Order
}

// Show takes a node's answer.
func (v *View) Show(d *Document, now time.Time) {
	v.doc, v.at, v.problem = d, now, ""
	d.sort(v.order())
	v.rules = v.rules[:0]
	if t := d.Totals; t != nil {
		v.history.add(t)
		for i := range t.Rules {
			v.rules = append(v.rules, t.Rules[i].Rule)
		}
	}
}

// Fail takes the reason why a node did not answer. The last answer stays.
func (v *View) Fail(err error) { v.problem = cell(err.Error()) }

// orders are the keys that sort.
var orders = map[screen.Key]string{'r': ByRate, 'd': byDenied, 's': byShare, 'k': byKey}

// Press handles a key.
func (v *View) Press(k screen.Key) Action {
	if v.help && k != 'q' && k != ctrlC {
		v.help = false // whichever key it is
		return None
	}
	if by, ok := orders[k]; ok {
		return v.sortBy(by)
	}
	switch k {
	case 'q', ctrlC:
		return Quit
	case 'p', ' ':
		if v.Paused = !v.Paused; !v.Paused {
			return Refresh
		}
	case 'f':
		return v.nextRule()
	case 'h', '?':
		v.help = true
	case screen.KeyEscape:
		v.marked, v.top = nil, 0
	case ctrlL:
		return Refresh
	default:
		v.move(k)
	}
	return None
}

func (v *View) sortBy(order string) Action {
	v.Order, v.top = order, 0
	if v.doc != nil {
		v.doc.sort(order)
	}
	return v.ask()
}

// ask asks for another document, unless the display is paused.
func (v *View) ask() Action {
	if v.Paused {
		return None
	}
	return Refresh
}

// nextRule shows only the clients of the next rule, or after the last one those of all.
func (v *View) nextRule() Action {
	i := slices.Index(v.rules, v.Rule) + 1 // 0: all are shown
	if v.Rule != "" && i == 0 || i >= len(v.rules) {
		v.Rule = ""
	} else {
		v.Rule = v.rules[i]
	}
	v.marked, v.top = nil, 0
	return v.ask()
}

// clients returns the clients that are shown.
func (v *View) clients() []Client {
	if v.doc == nil {
		return nil
	}
	if v.Rule == "" {
		return v.doc.Clients
	}
	var of []Client
	for i := range v.doc.Clients {
		if v.doc.Clients[i].Rule == v.Rule {
			of = append(of, v.doc.Clients[i])
		}
	}
	return of
}

// place returns the row of the marked client, or -1.
func (v *View) place(clients []Client) int {
	if v.marked == nil {
		return -1
	}
	return slices.IndexFunc(clients, func(c Client) bool { return c.Rule == v.marked.rule && c.Key == v.marked.key })
}

// Marked returns the client with the mark, or nil.
func (v *View) Marked() *Client {
	clients := v.clients()
	if i := v.place(clients); i >= 0 {
		return &clients[i]
	}
	return nil
}

// move moves the mark.
func (v *View) move(k screen.Key) {
	clients := v.clients()
	if len(clients) == 0 {
		return
	}
	at := v.place(clients)
	switch k {
	case screen.KeyUp:
		at--
	case screen.KeyDown:
		at++
	case screen.KeyPageUp:
		at -= max(v.page, 1)
	case screen.KeyPageDown:
		at += max(v.page, 1)
	case screen.KeyHome:
		at = 0
	case screen.KeyEnd:
		at = len(clients) - 1
	default:
		return
	}
	c := &clients[min(max(at, 0), len(clients)-1)]
	v.marked = &identity{c.Rule, c.Key}
}
