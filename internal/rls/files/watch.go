package files

import (
	"slices"

	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// Watcher notices changes of a folder: of files, links and names. Not safe for concurrent
// use.
type Watcher struct {
	folder Folder
	seen   []file
	failed bool
}

// NewWatcher returns one that takes the files for new.
func NewWatcher(f Folder) *Watcher { return &Watcher{folder: f} }

// Changed reports whether the files are others than at the call before.
func (w *Watcher) Changed() bool {
	if w.folder.Dir == "" {
		return false
	}
	now, err := w.folder.find()
	same := (err != nil) == w.failed && slices.EqualFunc(w.seen, now, func(a, b file) bool {
		return a.name == b.name && namedfile.Same(a.info, b.info)
	})
	w.seen, w.failed = now, err != nil
	return !same
}
