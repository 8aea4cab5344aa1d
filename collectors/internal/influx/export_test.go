// SPDX-License-Identifier: GPL-3.0-or-later

package influx

// OpenWithTimeout is Open with another time that a request may take.
var OpenWithTimeout = open
