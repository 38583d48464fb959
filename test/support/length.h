/* SPDX-License-Identifier: MIT */

#ifndef LENGTH_H
#define LENGTH_H

#define LENGTH(array) (sizeof(array) / sizeof *(array))

#endif /* LENGTH_H */
