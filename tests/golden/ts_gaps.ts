# A made-up file: values are missing, and cases are of unequal length.
@problemName Gaps
@timeStamps false
@missing true
@univariate false
@dimensions 3
@equalLength false
@classLabel true Low high 7
@data
1.5,?,-3.25e-2,0.1:0.2,0.3,NaN,4e5:7,8,9,?:Low
?,2.5:NaN,1e-9:0.1,NaN:high
0.3333333333333333,-1.7976931348623157e10,3,4,5,6,7:?,?,?,?,?,?,?:1,2,3,NaN,5,6,0.1:7
-12:34.5:?:Low
1,nan,3:4,5,6:?,8,?:high
