-- SPDX-License-Identifier: MIT

-- Timers of luv: many that are closed by each other, repeats, and what the
-- handles say about themselves. It prints what is the same each time.

local uv = require('luv')

local order = {}
for _, place in ipairs({5, 2, 4, 1, 3}) do
  local timer = uv.new_timer()
  timer:start(place * 50, 0, function()
    order[#order + 1] = place
    timer:close()
  end)
end

local fired = 0
for i = 1, 5000 do
  local timer = uv.new_timer()
  timer:start(i % 100, 0, function()
    fired = fired + 1
    timer:close()
  end)
  if i % 5 == 0 then
    timer:stop()
    timer:close()
  end
end

local repeats = 0
local repeating = uv.new_timer()
repeating:start(3, 4, function()
  repeats = repeats + 1
  assert(repeating:get_repeat() == 4 and repeating:is_active())
  if repeats == 20 then
    repeating:stop()
    assert(not repeating:is_active())
    repeating:close()
  end
end)

local kept = uv.new_timer()
local keeps = 0
kept:start(100, 100, function() error('it is always put off') end)
local keeper = uv.new_timer()
keeper:start(10, 10, function()
  kept:again()
  keeps = keeps + 1
  if keeps == 30 then
    keeper:close()
    kept:close()
  end
end)

local unrefd = uv.new_timer()
unrefd:unref()
unrefd:start(3600000, 0, function() end)
print(unrefd:has_ref(), unrefd:is_active(), unrefd:get_due_in() > 3500000)

uv.run()
print(fired, repeats, keeps, table.concat(order, ' '), uv.loop_alive())
local left = 0
uv.walk(function(handle)
  left = left + 1
  handle:close()
end)
uv.run()
print(left, uv.loop_close())
