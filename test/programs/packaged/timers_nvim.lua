-- SPDX-License-Identifier: MIT

-- An editor's timers: deferred functions, those of Vim's own, and a wait.

local function say(...)
  io.stdout:write(table.concat(vim.tbl_map(tostring, {...}), ' '), '\n')
end

local order, fired = {}, 0
for _, place in ipairs({5, 2, 4, 1, 3}) do
  vim.defer_fn(function() table.insert(order, place) end, place * 50)
end
for i = 1, 2000 do
  vim.defer_fn(function() fired = fired + 1 end, i % 100)
end
vim.cmd([[
  let g:ticks = 0
  let g:timer = timer_start(5, {-> execute('let g:ticks += 1')}, {'repeat': 10})
]])
say(vim.wait(60000, function()
  return #order == 5 and fired == 2000 and vim.g.ticks == 10
end))
say(fired, vim.g.ticks, unpack(order))
say(vim.wait(30, function() return false end))
vim.cmd('qall!')
