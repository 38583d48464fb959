// SPDX-License-Identifier: MIT

// The timers of Go's runtime: a heap, of which a goroutine's processor takes
// care. They run in real time, so what counts is the CPU time of the process,
// garbage collection included, and each callback is a goroutine.
//
// usage: GoBench N,... REPETITIONS; writes the same CSV as bench.c.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	timeout = time.Minute
	hot     = 1000
	enough  = 200000 // few timers are used again and again
	crowd   = 100000 // fewer timers that fire cost little beside the waking
)

type orders struct {
	ordered, shuffled, again, random, hot []int
}

var (
	timers []*time.Timer
	fired  int64
)

func makeOrders(n int) orders {
	numbers := rand.New(rand.NewSource(1))
	draws := n
	if draws < 1000 {
		draws = 1000
	}
	all := orders{
		ordered:  make([]int, n),
		shuffled: numbers.Perm(n),
		again:    numbers.Perm(n),
		random:   make([]int, draws),
		hot:      make([]int, draws),
	}
	for i := range all.ordered {
		all.ordered[i] = i
	}
	for i := range all.random {
		all.random[i] = numbers.Intn(n)
		all.hot[i] = all.shuffled[numbers.Intn(hot)%n]
	}
	return all
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func heapBytes() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func start(i int)     { timers[i].Reset(timeout) }
func stop(i int)      { timers[i].Stop() }
func stopStart(i int) { stop(i); start(i) }

// sweep adds what the operation took for all of the order.
func sweep(sums map[string]float64, name string, operate func(int),
	order []int) {
	begin := cpu()
	for _, i := range order {
		operate(i)
	}
	sums[name] += float64(cpu()-begin) / float64(len(order))
}

func expire(n int) float64 {
	numbers := rand.New(rand.NewSource(2))
	atomic.StoreInt64(&fired, 0)
	for i := 0; i < n; i++ {
		timers[i].Reset(time.Second +
			time.Duration(n)*time.Microsecond +
			time.Duration(numbers.Int63n(int64(time.Second))))
	}
	begin := cpu()
	for atomic.LoadInt64(&fired) < int64(n) {
		time.Sleep(10 * time.Millisecond)
	}
	return float64(cpu()-begin) / float64(n)
}

// operations runs the workloads and prints the results, unless it warms up.
func operations(n int, all orders, repetition int) {
	passes := (enough + n - 1) / n
	sums := map[string]float64{}
	for pass := 0; pass < passes; pass++ {
		sweep(sums, "start in memory order", start, all.ordered)
		sweep(sums, "refresh random", start, all.random)
		sweep(sums, "refresh hot", start, all.hot)
		sweep(sums, "stop shuffled", stop, all.shuffled)
		sweep(sums, "start shuffled", start, all.again)
		sweep(sums, "stop + start", stopStart, all.random)
		for i := range timers {
			stop(i)
		}
	}
	if n >= crowd {
		sums["expire"] = expire(n) * float64(passes)
	}
	for name, sum := range sums {
		if repetition > 0 {
			fmt.Printf("Go time.Timer,%s,%d,%d,%.6g,ns\n", name, n,
				repetition, sum/float64(passes))
		}
	}
}

func run(n, repetitions int) {
	fmt.Fprintf(os.Stderr, "%9d timers, Go ...\n", n)
	timers = make([]*time.Timer, n)
	all := makeOrders(n)
	before := heapBytes()
	for i := range timers {
		timers[i] = time.AfterFunc(timeout,
			func() { atomic.AddInt64(&fired, 1) })
	}
	fmt.Printf("Go time.Timer,memory per timer,%d,1,%.6g,bytes\n", n,
		(heapBytes()-before)/float64(n))
	for i := range timers {
		stop(i)
	}
	for i := 0; i <= repetitions; i++ {
		operations(n, all, i)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	runtime.GOMAXPROCS(1)
	for _, size := range strings.Split(os.Args[1], ",") {
		run(number(size), number(os.Args[2]))
	}
}
