# SPDX-License-Identifier: MIT

# Promises that time out, and a supply that ticks. It prints what is the same each
# time.

my @order;
await (5, 2, 4, 1, 3).map: -> $place {
  Promise.in($place / 10).then({ @order.push($place) })
};
say @order;
say [+] await (^500).map: -> $i { Promise.in($i % 100 / 1000).then({ $i }) };

my $ticks = 0;
react {
  whenever Supply.interval(0.01) { done if ++$ticks == 20 }
}
say $ticks;
