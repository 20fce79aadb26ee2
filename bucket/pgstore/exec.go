package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxNumber is the largest number in a row or an answer.
const maxNumber = 1<<53 - 1

// maxKey is the longest key that the index is certain to accept.
const maxKey = 1024

// Exec implements [remote.Driver]. It sends the operations as one statement, once: a
// take whose answer was lost may have been carried out, and a second one would charge
// twice.
func (d *driver) Exec(ctx context.Context, ops []*bucket.Op, settle remote.Settle) {
	ctx, cancel := context.WithTimeout(ctx, d.config.batchTimeout())
	defer cancel()
	b := d.batches.Get().(*batch) // ours
	defer func() { b.reset(); d.batches.Put(b) }()
	for _, op := range ops {
		if err := d.refusal(op); err != nil {
			settle(op, bucket.Reply{}, asError(err))
			continue
		}
		b.add(op)
	}
	if len(b.ops) == 0 {
		return
	}
	b.arrange()
	err := d.run(ctx, b)
	for i, o := range b.ops {
		switch {
		case err != nil:
			settle(o.op, bucket.Reply{}, err)
		case b.rows[i].late:
			settle(o.op, bucket.Reply{}, errLate)
		default:
			r := &b.rows[i]
			settle(o.op, bucket.Reply{Granted: uint64(r.granted), Level: uint64(r.reply), Now: uint64(r.now)}, nil) // read has checked
		}
	}
}

var (
	errLate   = newError(classLate, errors.New("not carried out"))
	errAnswer = newError(classProtocol, errors.New("unexpected answer of the function operate"))
)

// refusal returns why an operation is not sent, or nil if it is.
func (d *driver) refusal(op *bucket.Op) error {
	switch {
	case !d.Runs(op.Algorithm):
		return bucket.ErrAlgorithm
	case len(op.Key) > maxKey:
		return fmt.Errorf("key of %d bytes: want at most %d", len(op.Key), maxKey)
	case op.Kind == bucket.Reset:
		return nil
	}
	return remote.Unportable(&op.Shape)
}

// run fills b.rows. An error means that no operation has an answer.
func (d *driver) run(ctx context.Context, b *batch) (err error) {
	defer recovered(&err)
	dating, err := d.dating(ctx, b.ops)
	if err != nil {
		return d.failed(err)
	}
	args := b.fill(&dating, d.config.lockTimeout(), d.testClock())
	conn, err := d.acquire(ctx)
	if err != nil {
		return d.failed(err)
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, d.config.ioTimeout())
	defer cancel()
	d.counters.statements.Add(1)
	sent := d.now()
	rows, err := conn.Query(ctx, d.sql.operate, args...)
	if err != nil {
		return d.failed(err)
	}
	if err = b.read(rows); err != nil {
		return d.failed(err)
	}
	micros := b.rows[0].now
	d.counters.offsetUs.Store(micros - time.Now().UnixMicro())
	d.clocks.Observe("", remote.Reading{Micros: micros, Asked: sent, Got: d.now()})
	return nil
}

// acquire waits for a connection, but not for as long as it may take to make one.
func (d *driver) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.ioTimeout())
	defer cancel()
	return d.pool.Acquire(ctx)
}

// failed adds the class to an error. After a broken connection the next one may lead to
// another server, with another clock.
func (d *driver) failed(err error) error {
	e := asError(err)
	if errors.Is(e, bucket.ErrAway) {
		d.clocks.Forget()
	}
	return e
}

// read reads all rows, one for each operation. Nothing is certain before the last: an error
// rolls all of them back.
func (b *batch) read(rows pgx.Rows) error {
	defer rows.Close()
	sound := true
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.granted, &r.reply, &r.late, &r.now); err != nil {
			return err
		}
		if len(b.rows) == len(b.ops) { // further rows take no memory
			return errAnswer
		}
		op := b.ops[len(b.rows)].op
		sound = sound && min(r.granted, r.reply, r.now) >= 0 && uint64(r.granted) <= op.Count && r.reply <= maxNumber
		b.rows = append(b.rows, r)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !sound || len(b.rows) != len(b.ops) {
		return errAnswer
	}
	return nil
}

// dating returns how the operations are dated, if any of them need it. That may cost a
// round trip.
func (d *driver) dating(ctx context.Context, ops []locked) (remote.Dating, error) {
	if !slices.ContainsFunc(ops, func(o locked) bool { return remote.Dated(o.op) }) {
		return remote.Dating{}, nil
	}
	return d.clocks.Dating("", d.config.Timeout, d.now, func() (micros int64, err error) {
		if d.clock != nil {
			return signed(d.clock()), nil
		}
		d.counters.statements.Add(1)
		ctx, cancel := context.WithTimeout(ctx, d.config.ioTimeout())
		defer cancel()
		err = d.pool.QueryRow(ctx, d.sql.micros).Scan(&micros)
		return micros, err
	})
}

// testClock returns the time that replaces the server's, nil except in tests.
func (d *driver) testClock() any {
	if d.clock == nil {
		return nil
	}
	return signed(d.clock())
}
