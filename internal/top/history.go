package top

import (
	"fmt"

	"github.com/fastlimit/fastlimit/internal/bytesize"
)

// remembered is how many answers the screen's history covers.
const remembered = 60

// history is the rate of denials as of the last answers, oldest first.
type history struct {
	denied []float64
	up     float64 // uptime of the node, which reveals a restart
}

func (h *history) add(t *Totals) {
	if t.Uptime < h.up {
		h.denied = nil
	}
	h.up = t.Uptime
	if len(h.denied) == remembered {
		h.denied = append(h.denied[:0], h.denied[1:]...)
	}
	h.denied = append(h.denied, t.Denied)
}

// levels from none to the most.
var levels = []rune(" ▁▂▃▄▅▆▇█")

// line draws the denials as a curve, newest last, or "" if there were none.
func (h *history) line(width int) string {
	shown := h.denied[max(len(h.denied)-max(width, 0), 0):]
	most := 0.0
	for _, x := range shown {
		most = max(most, x)
	}
	if most == 0 {
		return ""
	}
	curve := make([]rune, len(shown))
	for i, x := range shown {
		at := int(x/most*float64(len(levels)-1) + 0.5)
		if x > 0 {
			at = max(at, 1)
		}
		curve[i] = levels[at]
	}
	return fmt.Sprintf("denied |%s| at most %s/s", string(curve), bytesize.Number(most))
}
