package redisstore

import (
	"context"
	"slices"

	"github.com/fastlimit/fastlimit/bucket/remote"
)

// readClock determines how the operations of a call are dated, if any of them need it. That
// may cost a round trip.
func (d *driver) readClock(ctx context.Context, c *call) error {
	c.dating, c.addr = remote.Dating{}, ""
	if !slices.ContainsFunc(c.ops, remote.Dated) {
		return nil
	}
	to, addr, err := d.serverOf(ctx, c)
	if err != nil {
		return err
	}
	c.addr = addr
	c.dating, err = d.clocks.Dating(addr, d.config.Timeout, d.now, func() (int64, error) { return d.askTime(ctx, to) })
	return err
}

// askTime reads the clock of a server, in µs.
func (d *driver) askTime(ctx context.Context, to pipeliner) (int64, error) {
	if d.clock != nil {
		return int64(d.clock()), nil
	}
	d.counters.commands.Add(1)
	pipe := to.Pipeline()
	cmd := pipe.Time(ctx)
	_, err := pipe.Exec(ctx)
	return cmd.Val().UnixMicro(), err
}

// observe reads the server's clock from the answer to a call. In a cluster the
// address of the server is known only if the call was dated.
func (d *driver) observe(c *call, micros int64) {
	if c.addr != "" || d.client.cluster == nil && c.to == "" {
		d.clocks.Observe(c.addr, remote.Reading{Micros: micros, Asked: c.sent, Got: c.got})
	}
}

// serverOf returns the server that a call goes to and its address, which is empty
// unless there is a cluster.
func (d *driver) serverOf(ctx context.Context, c *call) (pipeliner, string, error) {
	if c.to != "" || d.client.cluster == nil {
		return d.client.node(c.to), c.to, nil
	}
	node, err := d.client.cluster.MasterForKey(ctx, d.config.KeyPrefix+c.ops[0].Key)
	if err != nil {
		return nil, "", err
	}
	return node, node.Options().Addr, nil
}
