# SPDX-License-Identifier: MIT

# Cost against the number of timers, a line for each block of a .dat file: medians,
# and bars from the least to the most.
# Colours of middle brightness on no background, for light pages and dark ones.
#
#   gnuplot -e "name = 'refresh random'; data = 'refresh-random.dat'; \
#     rivals = 5; image = 'refresh-random.svg'" plot.gp

set terminal svg size 720,420 dynamic noenhanced font 'sans-serif,13'
set output image

grey = '#808890'
set border 3 linecolor rgb grey
set tics nomirror textcolor rgb grey
set title name textcolor rgb grey
set xlabel 'timers' textcolor rgb grey
set ylabel 'ns of CPU time per operation' textcolor rgb grey
set key outside right top textcolor rgb grey samplen 2 maxcols 1
set grid xtics ytics linecolor rgb grey linewidth 0.3 dashtype 3
set logscale xy
stats data using 1 nooutput
set xrange [STATS_min * 0.7:STATS_max * 1.4]
set xtics ('10' 1e1, '100' 1e2, '1k' 1e3, '10k' 1e4, '100k' 1e5, '1M' 1e6, \
  '10M' 1e7)
set format y '%g'

set bars small
plot for [i = 0:rivals - 1] data index i using 1:2:3:4:5 with yerrorlines \
  linecolor rgb variable linewidth 2 pointtype 7 pointsize 0.5 \
  title columnheader(1)
