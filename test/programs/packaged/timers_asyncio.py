# SPDX-License-Identifier: MIT
"""Thousands of timeouts, sleeps and cancels on uvloop. What it prints depends on
nothing but the order in which timers fire that are due far apart."""

import asyncio

import uvloop

TASKS = 3000
order = []


async def sleeps(i):
    await asyncio.sleep(i % 100 / 1000)
    return "slept"


async def is_limited(i):
    try:
        await asyncio.wait_for(asyncio.sleep(3600), i % 100 / 1000)
    except asyncio.TimeoutError:
        return "timed out"


async def is_in_time(i):
    return await asyncio.wait_for(sleeps(i), 60)


async def is_cancelled(i):
    task = asyncio.ensure_future(asyncio.sleep(3600))
    asyncio.get_running_loop().call_later(i % 100 / 1000, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled"


async def runs_late(i):
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(0.05)
    return "early" if loop.time() - began < 0.049 else "not early"


async def main():
    loop = asyncio.get_running_loop()
    for place in (5, 2, 4, 1, 3):
        loop.call_later(place / 10, order.append, place)
    never = [loop.call_later(0.2, order.append, "never") for _ in range(TASKS)]
    kinds = (sleeps, is_limited, is_in_time, is_cancelled, runs_late)
    ends = asyncio.gather(*(kinds[i % len(kinds)](i) for i in range(TASKS)))
    for handle in never:
        handle.cancel()
    ends = await ends
    await asyncio.sleep(0.6)
    for end in sorted(set(ends)):
        print(end, ends.count(end))
    print(order)


for _ in range(3):
    order.clear()
    loop = uvloop.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
